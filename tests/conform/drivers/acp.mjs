// A conversation with @agentclientprotocol/sdk. This driver starts the engine, which is one process for all turns.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import { client, methods, ndJsonStream, PROTOCOL_VERSION } from "@agentclientprotocol/sdk";

const settings = process.env, cwd = settings.TURNGATE_WORKSPACE;
const engine = spawn(process.argv[2], process.argv.slice(3), { cwd, detached: true, stdio: ["pipe", "pipe", "ignore"] });
process.on("exit", () => { try { process.kill(-engine.pid, "SIGKILL"); } catch {} });
const said = [readFileSync(settings.TURNGATE_PROMPT_FILE, "utf8"), settings.TURNGATE_REPLY, settings.TURNGATE_REPLY_2].filter(Boolean);
let answer;
const app = client({ name: "driver" })
  .onRequest(methods.client.session.requestPermission, () => ({ outcome: { outcome: "cancelled" } }))
  .onNotification(methods.client.session.update, ({ params: { update } }) => {
    if (update.sessionUpdate === "agent_message_chunk") answer += update.content.text;
  });
await app.connectWith(ndJsonStream(Writable.toWeb(engine.stdin), Readable.toWeb(engine.stdout)), async (agent) => {
  await agent.request(methods.agent.initialize, { protocolVersion: PROTOCOL_VERSION, clientCapabilities: {} });
  const { sessionId } = await agent.request(methods.agent.session.new, { cwd, mcpServers: [] });
  for (const text of said) {
    answer = "";
    const deadline = setTimeout(() => process.exit(1), settings.TURNGATE_DEADLINE_SEC * 1000);
    await agent.request(methods.agent.session.prompt, { sessionId, prompt: [{ type: "text", text }] });
    clearTimeout(deadline);
  }
});
console.log(answer);
process.exit(0);
