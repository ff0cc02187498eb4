// A turn with gemini-mcp-tool: its tool `ask-gemini`, which keeps no conversation. Its deadline is in minutes.
import { readFileSync } from "node:fs";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const cwd = process.env.TURNGATE_WORKSPACE, seconds = process.env.TURNGATE_DEADLINE_SEC;
const env = { ...process.env, GEMINI_MCP_BACKEND: "gemini", GEMINI_MCP_TIMEOUT: String(seconds / 60), GEMINI_CLI_TRUST_WORKSPACE: "true" };
const entry = new URL("node_modules/gemini-mcp-tool/dist/index.js", import.meta.url).pathname;
const client = new Client({ name: "driver", version: "1" });
await client.connect(new StdioClientTransport({ command: "node", args: [entry], env, cwd }));
try {
  const call = { name: "ask-gemini", arguments: { prompt: readFileSync(env.TURNGATE_PROMPT_FILE, "utf8") } };
  const said = await client.callTool(call, undefined, { timeout: seconds * 2000 });
  if (said.isError) throw new Error(said.content[0].text);
  console.log(said.content[0].text);
} finally {
  await client.close();
}
