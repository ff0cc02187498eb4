// Runs turns with @github/copilot-sdk and prints what it yields, one JSON object per line.
const { CopilotClient, RuntimeConnection } = await import(process.env.SDK);
const show = (line) => console.log(JSON.stringify(line));
const KINDS = {
  "user.message": ({ content }) => content,
  "assistant.message": ({ content, toolRequests }) => [content, toolRequests.map(({ name }) => name)],
  "tool.execution_start": ({ toolName, arguments: given }) => [toolName, given],
  "tool.execution_complete": ({ success, error }) => [success, error ?? null],
  "permission.requested": ({ permissionRequest: { kind, fileName, newFileContents } }) => [kind, fileName, newFileContents],
  "permission.completed": ({ result }) => result.kind,
  "session.error": ({ statusCode }) => statusCode,
  abort: ({ reason }) => reason,
};
let allow = false;
let events = [];
const options = {
  model: process.env.MODEL,
  provider: { type: "openai", baseUrl: process.env.COPILOT_PROVIDER_BASE_URL, apiKey: "none" },
  onPermissionRequest: async ({ kind }) => (events.push(["asked", kind]), { kind: allow ? "approve-once" : "reject" }),
};

async function client(steps) {
  const connection = RuntimeConnection.forStdio({ path: process.env.EXECUTABLE });
  const copilot = new CopilotClient({ connection, workingDirectory: process.cwd(), logLevel: "error" });
  try {
    await copilot.start();
    show({ status: await copilot.getStatus(), auth: (await copilot.getAuthStatus()).isAuthenticated });
    await steps(copilot);
  } catch (error) {
    show({ error: error.name, text: error.message, code: error.code });
  }
  show({ stopped: await copilot.stop() });
}

async function turn(session, prompt) {
  events = [];
  const answer = await session.sendAndWait({ prompt }, 600_000).then((end) => end?.data.content ?? null, () => "failed");
  // the events of a permission and its handler come in no order
  show({ prompt, answer, events: events.map((event) => JSON.stringify(event)).sort() });
}

const listen = (session) => session.on(({ type, data }) => type in KINDS && events.push([type, KINDS[type](data)]));
let id;
await client(async (copilot) => {
  const session = await copilot.createSession(options);
  id = session.sessionId;
  listen(session);
  await turn(session, "Say hello.");
  await turn(session, "Please write banana.");
  allow = true;
  await turn(session, "Please write apple.");
  await session.disconnect();
  show({ listed: (await copilot.listSessions()).map(({ sessionId }) => sessionId === id) });
});
await client(async (copilot) => {
  const session = await copilot.resumeSession(id, options);
  listen(session);
  show({ same: session.sessionId === id });
  await turn(session, "And again?");
  const other = await copilot.createSession(options);
  listen(other);
  await turn(other, "kumquat");
});
await client((copilot) => copilot.resumeSession("00000000-0000-4000-8000-000000000000", options));
process.exit(0);
