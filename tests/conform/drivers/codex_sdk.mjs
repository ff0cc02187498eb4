// A conversation with @openai/codex-sdk. It starts `codex exec` for each turn.
import { readFileSync } from "node:fs";
import { Codex } from "@openai/codex-sdk";

const settings = process.env;
const codex = new Codex({ codexPathOverride: settings.TURNGATE_ENGINE_CODEX });
const thread = codex.startThread({ workingDirectory: settings.TURNGATE_WORKSPACE, skipGitRepoCheck: true });
const turn = (text, seconds) => thread.run(text, { signal: AbortSignal.timeout(seconds * 1000) });

const { TURNGATE_DEADLINE_SEC: deadline, TURNGATE_CANCEL_AFTER_SEC: cancel } = settings;
let answer = await turn(readFileSync(settings.TURNGATE_PROMPT_FILE, "utf8"), deadline);
for (const reply of [settings.TURNGATE_REPLY, settings.TURNGATE_REPLY_2].filter(Boolean))
  answer = await turn(reply, cancel ?? deadline);
console.log(answer.finalResponse);
