// A conversation with codex-mcp-server: its tool `codex`, whose sessionId keeps the conversation.
import { readFileSync } from "node:fs";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const env = process.env, cwd = env.TURNGATE_WORKSPACE, timeout = env.TURNGATE_DEADLINE_SEC * 1000;
const entry = new URL("node_modules/codex-mcp-server/dist/index.js", import.meta.url).pathname;
const client = new Client({ name: "driver", version: "1" });
await client.connect(new StdioClientTransport({ command: "node", args: [entry], env, cwd }));
let said;
try {
  for (const file of [env.TURNGATE_PROMPT_FILE, env.TURNGATE_REPLY_FILE, env.TURNGATE_REPLY_2_FILE].filter(Boolean)) {
    const input = { prompt: readFileSync(file, "utf8"), sessionId: "driver", workingDirectory: cwd };
    said = await client.callTool({ name: "codex", arguments: input }, undefined, { timeout });
    if (said.isError) throw new Error(said.content[0].text);
  }
  console.log(said.content[0].text);
} finally {
  await client.close();
}
