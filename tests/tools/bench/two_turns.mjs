// Two turns of one conversation with @openai/codex-sdk: node two_turns.mjs ENGINE MODEL WORKSPACE PROMPT REPLY
import { Codex } from "@openai/codex-sdk";

const [engine, model, workingDirectory, ...prompts] = process.argv.slice(2);
const thread = new Codex({ codexPathOverride: engine }).startThread({ model, workingDirectory, skipGitRepoCheck: true });
let answer;
for (const prompt of prompts) answer = await thread.run(prompt);
console.log(answer.finalResponse);
