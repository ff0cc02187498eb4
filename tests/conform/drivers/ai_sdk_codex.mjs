// A conversation with the AI SDK and ai-sdk-provider-codex-cli in exec mode: each turn sends the whole conversation.
import { readFileSync } from "node:fs";
import { generateText } from "ai";
import { createCodexExec } from "ai-sdk-provider-codex-cli";

const env = process.env, messages = [];
const settings = { codexPath: env.TURNGATE_ENGINE_CODEX, cwd: env.TURNGATE_WORKSPACE, skipGitRepoCheck: true };
const codex = createCodexExec({ defaultSettings: { ...settings, approvalMode: "never", sandboxMode: "read-only" } });
for (const file of [env.TURNGATE_PROMPT_FILE, env.TURNGATE_REPLY_FILE, env.TURNGATE_REPLY_2_FILE].filter(Boolean)) {
  messages.push({ role: "user", content: readFileSync(file, "utf8") });
  const seconds = (messages.length > 1 && env.TURNGATE_CANCEL_AFTER_SEC) || env.TURNGATE_DEADLINE_SEC;
  const abortSignal = AbortSignal.timeout(seconds * 1000);
  const { text } = await generateText({ model: codex("gpt-5.5"), messages, abortSignal, maxRetries: 0 });
  messages.push({ role: "assistant", content: text });
}
console.log(messages.at(-1).content);
