// A correct orchestrator for Codex in Node: one process for each turn, in its own group, with a deadline.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";

const settings = process.env;

function fail(why) {
  console.error(why);
  process.exit(1);
}

async function turn(text, session) {
  const resume = session ? ["resume", session] : [];
  const engine = spawn("codex", ["exec", "--json", "--skip-git-repo-check", ...resume, "-"], {
    cwd: settings.TURNGATE_WORKSPACE, detached: true,
  });
  engine.stdin.on("error", () => {});
  engine.stdin.end(text);
  let out = "", err = "";
  engine.stdout.setEncoding("utf8").on("data", (chunk) => (out += chunk));
  engine.stderr.setEncoding("utf8").on("data", (chunk) => (err = (err + chunk).slice(-500)));
  const end = () => { try { process.kill(-engine.pid, "SIGKILL"); } catch {} };
  const limit = (session && settings.TURNGATE_CANCEL_AFTER_SEC) || settings.TURNGATE_DEADLINE_SEC;
  const deadline = setTimeout(() => { end(); fail("the engine hangs, or the user cancels"); }, limit * 1000);
  const code = await new Promise((resolve) => engine.on("close", resolve).on("error", () => resolve(-1)));
  clearTimeout(deadline);
  end();
  const lines = out.replace(/^\uFEFF/, "").split(/\r?\n/).filter((line) => line.startsWith("{"));
  let records;
  try { records = lines.map((line) => JSON.parse(line)); } catch { fail("the output is torn"); }
  if (code !== 0 || !records.some((record) => record.type === "turn.completed")) fail(`the turn failed: ${err}`);
  records = records.slice(0, records.findIndex((record) => record.type === "turn.completed"));
  const ids = records.filter((record) => record.type === "thread.started" && record.thread_id);
  if (ids.length !== 1 || (session && ids[0].thread_id !== session)) fail("there is no session id, or another one");
  const items = records.filter((record) => record.type === "item.completed").map((record) => record.item);
  const answer = items.filter((item) => item.type === "agent_message").at(-1)?.text;
  if (!answer) fail("there is no answer");
  return [ids[0].thread_id, answer];
}

let [session, answer] = await turn(readFileSync(settings.TURNGATE_PROMPT_FILE, "utf8"));
for (const name of ["TURNGATE_REPLY", "TURNGATE_REPLY_2"])
  if (name in settings) [session, answer] = await turn(settings[name], session);
console.log(JSON.parse(answer).final_data.answer);
