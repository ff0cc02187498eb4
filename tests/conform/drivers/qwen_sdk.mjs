// A conversation with @qwen-code/sdk. It starts one `qwen` for all turns.
import { readFileSync } from "node:fs";
import { query } from "@qwen-code/sdk";

const env = process.env, said = [readFileSync(env.TURNGATE_PROMPT_FILE, "utf8"), env.TURNGATE_REPLY, env.TURNGATE_REPLY_2];
const abortController = new AbortController();
const deadline = setTimeout(() => abortController.abort(), env.TURNGATE_DEADLINE_SEC * 1000).unref();
let ended, answer;
async function* input() {
  for (const content of said.filter(Boolean)) {
    const turn = new Promise((resolve) => (ended = resolve));
    deadline.refresh();
    yield { type: "user", session_id: "", message: { role: "user", content }, parent_tool_use_id: null };
    answer = await turn;
  }
}
const options = { pathToQwenExecutable: env.TURNGATE_ENGINE_QWEN, cwd: env.TURNGATE_WORKSPACE, abortController };
for await (const message of query({ prompt: input(), options })) {
  if (message.is_error) throw new Error(`the turn failed: ${JSON.stringify(message)}`);
  if (message.type === "result") ended(message.result);
}
console.log(answer);
