// What @openai/codex-sdk yields for some turns: node codex_sdk.mjs EXECUTABLE DIRECTORY
// The simulated engine doesn't print that it reads its standard input.
import { Codex } from "@openai/codex-sdk";

const [codexPathOverride, workingDirectory] = process.argv.slice(2);
const options = { workingDirectory, skipGitRepoCheck: true, sandboxMode: "workspace-write", approvalPolicy: "never" };
const codex = () => new Codex({ codexPathOverride });
const summary = ({ finalResponse, items }) => [finalResponse, items.filter(({ type }) => type !== "error").map(({ type, status }) => [type, status])];
const message = (turn) => turn.then(() => null, (error) => error.message.replace("Reading prompt from stdin...\n", "").trim());

const thread = codex().startThread(options);
const first = summary(await thread.run("Remember the plum."));
const tool = summary(await thread.run("Write."));
const again = codex().resumeThread(thread.id, options);
const resumed = summary(await again.run([{ type: "text", text: "Again." }]));
const schema = summary(await again.run("More.", { outputSchema: { type: "object" } }));
const types = new Set();
for await (const { type } of (await codex().startThread(options).runStreamed("Hello.")).events) types.add(type);
const lost = await message(codex().resumeThread("00000000-0000-7000-8000-000000000000", options).run("x"));
const failed = (await message(codex().startThread(options).run("kumquat"))).includes("refused as scripted");
console.log(JSON.stringify({ first, tool, resumed, same: again.id === thread.id, schema, types: [...types], lost, failed }));
