// Runs turns with @opencode-ai/sdk, which starts `opencode serve`, and prints what it yields, one JSON object per line.
import { dirname } from "node:path";

process.env.PATH = `${dirname(process.env.EXECUTABLE)}:${process.env.PATH}`;
const { createOpencode } = await import(process.env.SDK);
const show = (line) => console.log(JSON.stringify(line));
const [providerID, modelID] = process.env.MODEL.split("/");
const KINDS = {
  "permission.asked": ({ permission, tool }) => [permission, Object.keys(tool)],
  "permission.replied": ({ reply }) => reply,
  "session.error": ({ error: { name, data } }) => [name, data.message, data.statusCode],
  "message.part.updated": ({ part: { type, text, tool, state } }) =>
    type === "text" && text ? [text] : type === "tool" ? [tool, state.status, state.input, state.error ?? null] : null,
};
const config = JSON.parse(process.env.OPENCODE_CONFIG_CONTENT);
let allow = false;
let events = [];
let idle = () => {};

async function server(steps) {
  const stop = new AbortController();
  const { client, server } = await createOpencode({ config, port: 0, timeout: 600_000 });
  const { stream } = await client.event.subscribe({ signal: stop.signal });
  let connected;
  const listening = new Promise((resolve) => (connected = resolve));
  const reading = (async () => {
    for await (const { type, properties } of stream) {
      if (type === "server.connected") connected();
      if (type === "session.idle") idle();
      const seen = KINDS[type]?.(properties);
      if (seen) events.push([type, seen]);
      if (type !== "permission.asked") continue;
      const path = { id: properties.sessionID, permissionID: properties.id };
      const body = { response: allow ? "once" : "reject" };
      await client.postSessionIdPermissionsPermissionId({ path, body });
    }
  })();
  await listening;
  await steps(client);
  stop.abort();
  server.close();
  await reading.catch(() => {});
}

async function turn(client, id, text) {
  events = [];
  const ended = new Promise((resolve) => (idle = resolve));
  const body = { model: { providerID, modelID }, parts: [{ type: "text", text }] };
  const { data, error, response } = await client.session.prompt({ path: { id }, body });
  if (error) return show({ text, error, status: response.status });
  await ended;
  const said = data.parts.filter((part) => part.type === "text").map((part) => part.text);
  // only the first turn of a session makes a title, which comes at any time
  show({ text, said, failed: data.info.error?.name ?? null, events });
}

let id;
await server(async (client) => {
  id = (await client.session.create({ body: {} })).data.id;
  await turn(client, id, "Say hello.");
  await turn(client, id, "Please write banana.");
  allow = true;
  await turn(client, id, "Please write apple.");
  const roles = (await client.session.messages({ path: { id } })).data.map(({ info }) => info.role);
  show({ users: roles.filter((role) => role === "user").length, aborted: (await client.session.abort({ path: { id } })).data });
  show({ listed: (await client.session.list()).data.map((session) => session.id === id) });
});
await server(async (client) => {
  const { data } = await client.session.get({ path: { id } });
  show({ same: data.id === id, directory: data.directory, version: data.version });
  await turn(client, id, "And again?");
  await turn(client, (await client.session.create({ body: {} })).data.id, "kumquat");
  await turn(client, "ses_000000000000AAAAAAAAAAAAAA", "Hello?");
  show({ deleted: (await client.session.delete({ path: { id } })).data });
  const lost = await client.session.get({ path: { id } });
  show({ lost: lost.error.name, status: lost.response.status });
});
process.exit(0);
