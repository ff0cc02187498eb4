// A conversation with ask-gemini-mcp: its tool `ask-gemini`, whose sessionId continues a conversation.
import { readFileSync } from "node:fs";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const cwd = process.env.TURNGATE_WORKSPACE, timeout = process.env.TURNGATE_DEADLINE_SEC * 1000;
const env = { ...process.env, GMCPT_TIMEOUT_MS: String(timeout) };
const entry = new URL("node_modules/ask-gemini-mcp/dist/cli.js", import.meta.url).pathname;
const client = new Client({ name: "driver", version: "1" });
await client.connect(new StdioClientTransport({ command: "node", args: [entry], env, cwd }));
let sessionId, said;
try {
  for (const file of [env.TURNGATE_PROMPT_FILE, env.TURNGATE_REPLY_FILE, env.TURNGATE_REPLY_2_FILE].filter(Boolean)) {
    const input = { prompt: readFileSync(file, "utf8"), sessionId };
    said = await client.callTool({ name: "ask-gemini", arguments: input }, undefined, { timeout: 2 * timeout });
    if (said.isError) throw new Error(said.content[0].text);
    sessionId = said.structuredContent.sessionId;
  }
  console.log(said.structuredContent.response);
} finally {
  await client.close();
}
