// A conversation with @qwen-code/sdk. It starts one `qwen` for all turns.
import { readFileSync } from "node:fs";
import { query } from "@qwen-code/sdk";

const settings = process.env;
const said = [readFileSync(settings.TURNGATE_PROMPT_FILE, "utf8"), settings.TURNGATE_REPLY, settings.TURNGATE_REPLY_2].filter(Boolean);
let next, answer;
async function* input() {
  for (const content of said) {
    const ended = new Promise((resolve) => (next = resolve));
    yield { type: "user", session_id: "", message: { role: "user", content }, parent_tool_use_id: null };
    await ended;
  }
}
const abortController = new AbortController();
const limit = () => setTimeout(() => abortController.abort(), settings.TURNGATE_DEADLINE_SEC * 1000);
let deadline = limit();
const options = { pathToQwenExecutable: settings.TURNGATE_ENGINE_QWEN, cwd: settings.TURNGATE_WORKSPACE, abortController };
for await (const message of query({ prompt: input(), options })) {
  if (message.type !== "result") continue;
  if (message.is_error) throw new Error(`the turn failed: ${JSON.stringify(message)}`);
  clearTimeout(deadline);
  deadline = limit();
  answer = message.result;
  next();
}
clearTimeout(deadline);
console.log(answer);
