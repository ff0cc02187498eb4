// Runs turns with @zed-industries/agent-client-protocol and prints what the agent sends, one JSON object per line.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { Readable, Writable } from "node:stream";

const acp = await import(process.env.SDK);
const show = (line) => console.log(JSON.stringify(line));
const text = (words) => [{ type: "text", text: words }];
const cwd = process.cwd();
let allow = false;

const client = {
  async requestPermission(asked) {
    show({ asked });
    const chosen = asked.options.find((option) => option.kind === (allow ? "allow_once" : "reject_once"));
    return { outcome: { outcome: "selected", optionId: chosen.optionId } };
  },
  async sessionUpdate({ update }) {
    show({ update });
  },
};

async function agent(steps) {
  const child = spawn(process.env.EXECUTABLE, JSON.parse(process.env.ARGUMENTS), { cwd, stdio: ["pipe", "pipe", "ignore"] });
  const exited = once(child, "exit");
  const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
  const connection = new acp.ClientSideConnection(() => client, stream);
  try {
    const { agentCapabilities, protocolVersion } = await connection.initialize({ protocolVersion: 1, clientCapabilities: {} });
    show({ protocolVersion, loads: agentCapabilities.loadSession });
    await steps(connection);
  } catch (error) {
    show({ error: error.code, text: error.message });
  }
  child.stdin.end();
  await exited;
}

let sessionId;
await agent(async (connection) => {
  const session = await connection.newSession({ cwd, mcpServers: [] });
  sessionId = session.sessionId;
  const { currentModeId, availableModes = [] } = session.modes ?? {};
  if (currentModeId !== "default" && availableModes.some(({ id }) => id === "default")) {
    await connection.setSessionMode({ sessionId, modeId: "default" });
  }
  const prompt = async (words) => show({ ended: await connection.prompt({ sessionId, prompt: text(words) }) });
  await prompt("Say hello.");
  await prompt("Please write banana.");
  allow = true;
  await prompt("Please write apple.");
});
const minute = () => Math.floor(Date.now() / 60_000);
for (const began = minute(); process.env.IN_LATER_MINUTE && minute() === began; ) {
  await new Promise((resolve) => setTimeout(resolve, 1000));
}
for (const loaded of [sessionId, process.env.LOST]) {
  await agent(async (connection) => {
    await connection.loadSession({ sessionId: loaded, cwd, mcpServers: [] });
    show({ ended: await connection.prompt({ sessionId: loaded, prompt: text("And again?") }) });
  });
}
process.exit(0);
