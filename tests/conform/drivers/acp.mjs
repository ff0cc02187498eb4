// A conversation with @agentclientprotocol/sdk. This driver starts the engine, which is one process for all turns.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import { client, methods, ndJsonStream, PROTOCOL_VERSION } from "@agentclientprotocol/sdk";

const env = process.env, cwd = env.TURNGATE_WORKSPACE, said = [readFileSync(env.TURNGATE_PROMPT_FILE, "utf8"), env.TURNGATE_REPLY, env.TURNGATE_REPLY_2];
const engine = spawn(process.argv[2], process.argv.slice(3), { cwd, detached: true, stdio: ["pipe", "pipe", "ignore"] });
process.on("exit", () => { try { process.kill(-engine.pid, "SIGKILL"); } catch {} });
const deadline = setTimeout(() => process.exit(1), env.TURNGATE_DEADLINE_SEC * 1000);
let answer;
const app = client({ name: "driver" }).onNotification(methods.client.session.update, ({ params: { update } }) => {
  if (update.sessionUpdate === "agent_message_chunk") answer += update.content.text;
});
await app.connectWith(ndJsonStream(Writable.toWeb(engine.stdin), Readable.toWeb(engine.stdout)), async (agent) => {
  await agent.request(methods.agent.initialize, { protocolVersion: PROTOCOL_VERSION, clientCapabilities: {} });
  const { sessionId } = await agent.request(methods.agent.session.new, { cwd, mcpServers: [] });
  for (const text of said.filter(Boolean)) {
    answer = "";
    deadline.refresh();
    await agent.request(methods.agent.session.prompt, { sessionId, prompt: [{ type: "text", text }] });
  }
});
process.stdout.write(answer, () => process.exit(0));
