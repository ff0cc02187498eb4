// A conversation with @instantlyeasy/claude-code-sdk-ts: each turn resumes the session of the one before.
import { readFileSync } from "node:fs";
import { query } from "@instantlyeasy/claude-code-sdk-ts";

const env = process.env;
let sessionId, answer;
for (const file of [env.TURNGATE_PROMPT_FILE, env.TURNGATE_REPLY_FILE, env.TURNGATE_REPLY_2_FILE].filter(Boolean)) {
  const seconds = (sessionId && env.TURNGATE_CANCEL_AFTER_SEC) || env.TURNGATE_DEADLINE_SEC;
  const signal = AbortSignal.timeout(seconds * 1000), cwd = env.TURNGATE_WORKSPACE;
  answer = undefined;
  for await (const message of query(readFileSync(file, "utf8"), { cwd, sessionId, signal })) {
    sessionId = message.session_id ?? sessionId;
    if (message.type === "assistant") answer = message.content.find((block) => block.type === "text")?.text ?? answer;
  }
  if (!sessionId || !answer) throw new Error("no session id, or no answer");
}
console.log(answer);
