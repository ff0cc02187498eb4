// Runs turns with the SDK in SDK and prints what it yields, one JSON object per line.
const { query } = await import(process.env.SDK);
const show = (line) => console.log(JSON.stringify(line));

async function turn(prompt, { allow = true, resume } = {}) {
  async function* input() {
    yield { type: "user", message: { role: "user", content: prompt }, parent_tool_use_id: null, session_id: "" };
  }
  const canUseTool = async (tool, given) => {
    show({ asked: tool, input: given });
    return allow ? { behavior: "allow", updatedInput: given } : { behavior: "deny", message: "no thanks" };
  };
  const options = {
    [process.env.EXECUTABLE_OPTION]: process.env.EXECUTABLE,
    cwd: process.cwd(),
    model: process.env.MODEL,
    permissionMode: "default",
    canUseTool,
    // milliseconds; Qwen's SDK gives a CLI a minute to start, which a busy machine exceeds
    timeout: { controlRequest: 600_000, canUseTool: 600_000 },
    ...(resume && { resume }),
  };
  let session;
  try {
    for await (const message of query({ prompt: input(), options })) {
      show(message);
      session = message.session_id ?? session;
    }
  } catch (error) {
    show({ error: error.name, text: error.message });
  }
  return session;
}

const session = await turn("Say hello.");
await turn("And again?", { resume: session });
await turn("Please write banana.", { allow: false });
await turn("Please write apple.");
await turn("Hello?", { resume: "00000000-0000-4000-8000-000000000000" });
process.exit(0);
