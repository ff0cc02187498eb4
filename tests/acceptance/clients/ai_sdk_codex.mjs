// What ai-sdk-provider-codex-cli yields for some turns of an app server: node ai_sdk_codex.mjs EXECUTABLE DIRECTORY
import { createCodexAppServer } from "ai-sdk-provider-codex-cli";

const [codexPath, cwd] = process.argv.slice(2);
const warnings = new Set();
const warn = (message) => warnings.add(message.replace(/[0-9a-f-]{36}|\d+/g, "…"));
const logger = { debug() {}, info() {}, warn, error: warn };
const settings = { codexPath, cwd, approvalPolicy: "never", sandboxPolicy: { type: "workspaceWrite" }, threadMode: "persistent", logger };

async function run(steps) {
  const provider = createCodexAppServer({ defaultSettings: settings });
  const turn = async (prompt, threadId) => {
    const providerOptions = threadId && { "codex-app-server": { threadId } };
    const messages = [{ role: "user", content: [{ type: "text", text: prompt }] }];
    const end = await provider("stub").doGenerate({ prompt: messages, providerOptions });
    const said = end.content.filter(({ type }) => type === "text").map(({ text }) => text);
    return [said.join(""), end.finishReason, end.providerMetadata["codex-app-server"].threadId];
  };
  try {
    return await steps(turn);
  } finally {
    await provider.close();
  }
}

const message = (turn) => turn.then(() => null, (error) => error.message);
const [first, tool] = await run(async (turn) => {
  const begun = await turn("Remember the plum.");
  return [begun, await turn("Write.", begun[2])];
});
const thread = first.pop();
const result = await run(async (turn) => {
  const [text, reason, id] = await turn("Again.", thread);
  const lost = await message(turn("x", "00000000-0000-7000-8000-000000000000"));
  return { resumed: [text, reason], same: id === thread && tool.pop() === thread, lost };
});
const failed = (await run((turn) => message(turn("kumquat")))).includes("refused as scripted");
console.log(JSON.stringify({ first, tool, ...result, failed, warnings: [...warnings] }));
process.exit(0);
