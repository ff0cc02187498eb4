// A conversation with @unified-agent-sdk/provider-codex: one session, whose runs resume its thread.
import { readFileSync } from "node:fs";
import { CodexRuntime } from "@unified-agent-sdk/provider-codex";

const env = process.env;
const runtime = new CodexRuntime({ client: { codexPathOverride: env.TURNGATE_ENGINE_CODEX } });
const workspace = { cwd: env.TURNGATE_WORKSPACE }, provider = { skipGitRepoCheck: true };
const session = await runtime.openSession({ config: { workspace, provider, access: { auto: "low" } } });
let turn;
for (const file of [env.TURNGATE_PROMPT_FILE, env.TURNGATE_REPLY_FILE, env.TURNGATE_REPLY_2_FILE].filter(Boolean)) {
  const seconds = (turn && env.TURNGATE_CANCEL_AFTER_SEC) || env.TURNGATE_DEADLINE_SEC;
  const parts = [{ type: "text", text: readFileSync(file, "utf8") }];
  turn = await (await session.run({ input: { parts }, config: { signal: AbortSignal.timeout(seconds * 1000) } })).result;
  if (turn.status !== "success") throw new Error(`the turn failed: ${JSON.stringify(turn)}`);
}
console.log(turn.finalText);
