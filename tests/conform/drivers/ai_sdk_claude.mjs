// A conversation with the AI SDK and ai-sdk-provider-claude-code: each turn resumes the session of the one before.
import { readFileSync } from "node:fs";
import { generateText } from "ai";
import { createClaudeCode } from "ai-sdk-provider-claude-code";

const env = process.env, settings = { pathToClaudeCodeExecutable: env.TURNGATE_ENGINE_CLAUDE, cwd: env.TURNGATE_WORKSPACE };
const claude = createClaudeCode();
let resume, answer;
for (const file of [env.TURNGATE_PROMPT_FILE, env.TURNGATE_REPLY_FILE, env.TURNGATE_REPLY_2_FILE].filter(Boolean)) {
  const seconds = (resume && env.TURNGATE_CANCEL_AFTER_SEC) || env.TURNGATE_DEADLINE_SEC;
  const abortSignal = AbortSignal.timeout(seconds * 1000), prompt = readFileSync(file, "utf8");
  const model = claude("sonnet", resume ? { ...settings, resume } : settings);
  const { text, providerMetadata } = await generateText({ model, prompt, abortSignal, maxRetries: 0 });
  resume = providerMetadata?.["claude-code"]?.sessionId;
  if (!resume) throw new Error("no session id");
  answer = text;
}
console.log(answer);
