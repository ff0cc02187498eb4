// A turn with @steipete/claude-code-mcp: its tool `claude_code`, which keeps no conversation.
import { readFileSync } from "node:fs";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const env = process.env, workFolder = env.TURNGATE_WORKSPACE, timeout = env.TURNGATE_DEADLINE_SEC * 1000;
const entry = new URL("node_modules/@steipete/claude-code-mcp/dist/server.js", import.meta.url).pathname;
const client = new Client({ name: "driver", version: "1" });
await client.connect(new StdioClientTransport({ command: "node", args: [entry], env }));
try {
  const input = { prompt: readFileSync(env.TURNGATE_PROMPT_FILE, "utf8"), workFolder };
  const said = await client.callTool({ name: "claude_code", arguments: input }, undefined, { timeout });
  if (said.isError) throw new Error(said.content[0].text);
  console.log(said.content[0].text);
} finally {
  await client.close();
}
