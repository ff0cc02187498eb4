"""An orchestrator in one file: it runs coding-agent CLIs turn by turn, and lets users answer their questions over HTTP.

Start it with `python app.py`. The variables PORT, DATA and WORKSPACES change its port, its folder, and that of callers.

A run is a task for one engine, and a row of a database. Each turn of it is one process of the engine, which gets a text
and ends with a question, a result or an error. Between two turns no process lives: the engine keeps the conversation in
a session, which a new process resumes by its id. So a run can wait for days, and through restarts of the server.

    created --> queued --> running --> succeeded, failed
                  ^           v
                  +---- waiting_user       from each state that isn't an end: canceled

Four rules keep this right whenever a process dies:

1. The row says that a turn runs before its process starts, and all of its processes carry the name of the turn.
2. A turn that has begun is never repeated, since the engine may have acted. A restart ends its processes and fails it.
3. What a turn brought, its session included, and the new state are one transaction. Who sees one of them sees all.
4. One transaction looks at a state and changes it. So one of many replies wins, and the others are told that they lost.
"""

import json
import os
import signal
import sqlite3
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from flask import Flask, Response, abort, request
from werkzeug.exceptions import HTTPException
from werkzeug.serving import make_server  # the server of Flask

from turngate import Outcome, Stop, TurngateError, TurnInput, TurnOutput, check_turn, end_tagged, not_started, play_turn

SLOTS, LONGEST_BODY, LONGEST_TURN = 4, 4 * 2**20, 86400  # turns at once, bytes, seconds
STATES = {Outcome.ASK_USER: "waiting_user", Outcome.FINAL: "succeeded", Outcome.ERROR: "failed"}
CODES = {400: "BAD_JSON", 413: "BODY_TOO_LARGE", 500: "INTERNAL_ERROR"}  # where Flask has other names
TABLES = """
CREATE TABLE IF NOT EXISTS runs (
    id TEXT PRIMARY KEY, state TEXT NOT NULL,
    turn INTEGER NOT NULL,      -- the number of the latest turn
    name TEXT AS (id || '.' || turn),  -- of the processes of that turn, and of its question
    input TEXT NOT NULL,        -- what the turn gets, as JSON
    output TEXT,                -- what the last turn that ended brought: its question or result, and its session
    error TEXT,                 -- why the run failed, or why its last reply was not sent, as JSON
    is_canceled INTEGER NOT NULL DEFAULT 0, moved_at REAL NOT NULL  -- in seconds since 1970
);
CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, request TEXT, answer TEXT, turn TEXT);  -- to callers
"""


class Orchestrator:
    """All runs of a folder: what callers do with them, and the threads that play their turns."""

    def __init__(self, data: Path, workspaces: Path) -> None:
        """Open a folder, and settle what a killed server left there; sqlite3.OperationalError: another one has it."""
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._data, self._workspaces = data.resolve(), workspaces.resolve()
        self._db = sqlite3.connect(data / "runs.sqlite", timeout=0, check_same_thread=False)
        self._db.row_factory = sqlite3.Row
        self._db.execute("PRAGMA locking_mode = EXCLUSIVE")  # until this process ends, however it ends
        self._db.executescript(f"BEGIN EXCLUSIVE; {TABLES} COMMIT")
        # `with self._lock, self._db` is a transaction: at its end it is written, or undone if there is an exception
        self._lock, self._is_leaving = threading.RLock(), False
        self._slots, self._playing = ThreadPoolExecutor(SLOTS), dict[str, Stop]()
        begun = self._db.execute("SELECT * FROM runs WHERE state = 'running'").fetchall()
        end_tagged(row["name"] for row in begun)
        for row in begun:
            self._end(row, "failed", "ORCHESTRATOR_RESTART_INTERRUPTED: the server was killed during the turn")
        for _ in self._db.execute("SELECT 1 FROM runs WHERE state = 'queued'").fetchall():
            self._slots.submit(self._play_next).add_done_callback(Future.result)  # which logs an error of ours

    def create(self, order: dict[str, Any], named: str) -> dict[str, Any]:
        """Queue a run whose first turn is `order`, in a folder of its own, or in one that the caller names."""
        run, asked = os.urandom(16).hex(), json.dumps([order, named])
        self._answer_again(asked)
        folder = self._named(named) if named else self._data / run
        check(TurnInput(**order, workspace=str(folder if named else self._data)))
        with self._lock, self._db as db:
            self._answer_again(asked)
            busy = """SELECT 1 FROM runs WHERE state IN ('queued', 'running', 'waiting_user')
                AND json_extract(input, '$.workspace') = ?"""
            if db.execute(busy, [str(folder)]).fetchone():
                abort(409, "WORKSPACE_BUSY: an unfinished run works in this folder")
            folder.mkdir(exist_ok=True)
            values = [run, TurnInput(**order, workspace=str(folder)).to_json(), time.time()]
            db.execute("INSERT INTO runs (id, state, turn, input, moved_at) VALUES (?, 'queued', 1, ?, ?)", values)
            return self._queued(run, asked)

    def reply(self, run: str, interaction_id: str, response: str) -> dict[str, Any]:
        """Queue the turn that brings a reply to the session of a run."""
        asked = json.dumps([run, interaction_id, response])
        self._answer_again(asked)
        row = self._open(run, interaction_id)
        turn = TurnInput.from_json(row["input"]).reply(response, TurnOutput.from_json(row["output"]))
        check(turn)
        with self._lock, self._db as db:
            self._answer_again(asked)
            self._open(run, interaction_id)  # still
            move = "UPDATE runs SET state = 'queued', turn = turn + 1, error = NULL, input = ?, moved_at = ?"
            db.execute(f"{move} WHERE id = ?", [turn.to_json(), time.time(), run])
            return self._queued(run, asked)

    def cancel(self, run: str) -> dict[str, Any]:
        """Cancel a run: now, or once all processes of its turn have ended."""
        with self._lock, self._db as db:
            mark = "UPDATE runs SET is_canceled = 1, state = iif(state = 'running', state, 'canceled') WHERE id = ?"
            row = db.execute(f"{mark} AND state NOT IN ('succeeded', 'failed') RETURNING *", [run]).fetchone()
        if row is None:
            abort(409, f"RUN_ENDED: the run has {self.find(run)['state']}")
        if stop := self._playing.get(run):
            stop.set()
        return described(row) | {"cancel_requested": True}

    def find(self, run: str) -> sqlite3.Row:
        """Return the row of a run."""
        with self._lock:
            row: sqlite3.Row | None = self._db.execute("SELECT * FROM runs WHERE id = ?", [run]).fetchone()
        return row or abort(404, f"RUN_NOT_FOUND: there is no run {run}")

    def close(self) -> None:
        """Interrupt the turns that run, and return when all of their processes have ended."""
        self._is_leaving = True
        for stop in [*self._playing.values()]:
            stop.set()
        self._slots.shutdown()
        self._db.close()

    def _named(self, name: str) -> Path:
        """Return the folder that a caller names: below WORKSPACES, and apart from the data of this server."""
        with suppress(OSError, ValueError, RuntimeError):  # it is missing, or no path at all, or a link to itself
            folder = (self._workspaces / name).resolve(strict=True)
            is_apart = not (folder.is_relative_to(self._data) or self._data.is_relative_to(folder))
            if is_apart and folder.is_dir() and folder.is_relative_to(self._workspaces):
                return folder
        return abort(422, f"WORKSPACE_REFUSED: {name[:100]!r} is no folder in {self._workspaces} that you may use")

    def _open(self, run: str, interaction_id: str) -> sqlite3.Row:
        """Return the row of a run that waits for the reply to this question."""
        row = self.find(run)
        if row["state"] != "waiting_user":
            abort(409, f"NOT_WAITING: the run is {row['state']}")
        if interaction_id != row["name"]:
            abort(409, "INTERACTION_STALE: another question is open")
        return row

    def _play_next(self) -> None:
        """Play the turn of the run that has been queued for longest."""
        claim = """UPDATE runs SET state = 'running', moved_at = ? WHERE id =
            (SELECT id FROM runs WHERE state = 'queued' ORDER BY moved_at LIMIT 1) RETURNING *"""
        with self._lock, self._db as db:
            row = None if self._is_leaving else db.execute(claim, [time.time()]).fetchone()
        if row is None:
            return
        turn, stop = TurnInput.from_json(row["input"]), Stop()
        self._playing[row["id"]] = stop
        if self._is_leaving or self.find(row["id"])["is_canceled"]:  # since before `stop` could be found
            stop.set()
        try:
            output = play_turn(turn, stop=stop, tag=row["name"])
        except (TurngateError, OSError) as error:  # no process of the turn was started, so a reply is returned
            self._end(row, "waiting_user" if turn.session else "failed", not_started(error))
        else:
            why = output.result.failure_reason
            if why and stop.is_set():
                why = "ORCHESTRATOR_RESTART_INTERRUPTED: the server was stopped during the turn"
            self._end(row, STATES[output.result.outcome], why, output.to_json())
        finally:
            del self._playing[row["id"]]

    def _end(self, row: sqlite3.Row, state: str, why: str | None, output: str | None = None) -> None:
        """End the turn of a run with all that it brought, unless somebody has canceled the run."""
        is_returned = state == "waiting_user" and output is None  # the question of the turn before is open again
        move = """UPDATE runs SET state = iif(is_canceled, 'canceled', ?), error = ?, output = coalesce(?, output),
            turn = turn - ?, moved_at = ? WHERE id = ?"""
        error = why and json.dumps(dict(zip(("code", "detail"), why.split(": ", 1), strict=False)))
        with self._lock, self._db as db:
            db.execute(move, [state, error, output, is_returned, time.time(), row["id"]])
            if is_returned:
                db.execute("DELETE FROM answers WHERE turn = ?", [row["name"]])  # its key may be used again

    def _answer_again(self, asked: str) -> None:
        """End a request that has been sent before, with the same key: it gets the same answer, and changes nothing."""
        with self._lock:
            key = [request.headers.get("Idempotency-Key")]
            before = self._db.execute("SELECT * FROM answers WHERE key = ?", key).fetchone()
        if before and before["request"] != asked:
            abort(422, "IDEMPOTENCY_KEY_REUSED: the key belongs to another request")
        if before:
            abort(Response(before["answer"], 202, content_type="application/json"))

    def _queued(self, run: str, asked: str) -> dict[str, Any]:
        """Return the answer to a request that has queued a run, and keep it. The turn waits for the transaction."""
        row = self.find(run)
        if key := request.headers.get("Idempotency-Key"):
            values = [key, asked, json.dumps(described(row)), row["name"]]
            self._db.execute("INSERT INTO answers VALUES (?, ?, ?, ?)", values)
        self._slots.submit(self._play_next).add_done_callback(Future.result)  # which logs an error of ours
        return described(row)


def described(row: sqlite3.Row) -> dict[str, Any]:
    """Describe a run: where it stands, the session that it resumes, its result, and why it failed."""
    path, output = f"/v1/runs/{row['id']}", json.loads(row["output"] or '{"session": null}')
    parts = {"self": "", "interaction": "/interaction", "reply": "/interaction/reply", "cancel": "/cancel"}
    return {
        "run_id": row["id"],
        "state": row["state"],
        "turn_index": row["turn"],
        "links": {name: path + part for name, part in parts.items()},
        "interactive_profile": {"kind": "resumable", "reason": "no process is kept between turns"},
        "engine_session_handle": output["session"],
        "final_data": output["result"]["final_data"] if row["state"] == "succeeded" else None,
        "error": json.loads(row["error"]) if row["state"] == "failed" else None,
    }


def interaction(row: sqlite3.Row) -> dict[str, Any]:
    """Describe the open question of a run, and the reply to it that could not be sent."""
    if row["state"] != "waiting_user":
        return {"state": row["state"], "pending": None, "unsent_reply": None}
    pending = {"interaction_id": row["name"]} | json.loads(row["output"])["result"]["interaction"]
    unsent = row["error"] and {"response": TurnInput.from_json(row["input"]).message} | json.loads(row["error"])
    return {"state": row["state"], "pending": pending, "unsent_reply": unsent}


def check(turn: TurnInput) -> None:
    """Refuse a turn that could not start now, before anybody is told that it will."""
    try:
        check_turn(turn)
    except TurngateError as error:
        why = not_started(error)
        why = why if turn.session else why.replace("ENGINE_UNAVAILABLE: ", "ENGINE_NOT_INSTALLED: ", 1)
        abort(409 if why.partition(": ")[0].endswith("_UNAVAILABLE") else 422, why)


def sent(*required: str, **defaults: Any) -> dict[str, Any]:
    """Return the members of the request: the required ones, which are texts, and those that have a default."""
    try:
        body = request.get_json()
        json.dumps(body, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):  # half of a character, or nested too deeply
        abort(400)
    known = dict.fromkeys(required, "") | defaults
    given = known | (body if isinstance(body, dict) else {"": body})
    wrong = [name for name, value in given.items() if type(value) is not type(known.get(name, ...))]
    if wrong := wrong + [name for name in required if not str(given[name]).strip()]:
        abort(422, f"INVALID_REQUEST: missing, unknown or of a wrong type: {', '.join(wrong)[:500]}")
    return given


def make_app(runs: Orchestrator) -> Flask:
    """Return the web application."""
    app = Flask(__name__)
    app.config.update(MAX_CONTENT_LENGTH=LONGEST_BODY, TRUSTED_HOSTS=["127.0.0.1", "localhost"])

    @app.errorhandler(HTTPException)
    def _problem(error: HTTPException) -> Response:
        code, _, detail = f"{error.description}".partition(": ")
        if not code.isupper():  # Flask refuses the request by itself
            code, detail = CODES.get(error.code or 0, error.name.upper().replace(" ", "_")), f"{error.description}"
        problem = {"type": "about:blank", "title": code, "status": error.code, "code": code, "detail": detail}
        return Response(json.dumps(problem), error.code, content_type="application/problem+json")

    def create() -> tuple[dict[str, Any], int]:
        more = {"model": "", "engine_options": [], "session_timeout_sec": 1200, "workspace": ""}
        task = sent("engine", "prompt", "execution_mode", **more)
        seconds, options = task["session_timeout_sec"], (*task["engine_options"],)
        if task["execution_mode"] != "interactive" or not 1 <= seconds <= LONGEST_TURN or {*map(type, options)} - {str}:
            abort(422, "INVALID_REQUEST: execution_mode must be interactive, and each value within its limits")
        order = {"engine": task["engine"], "message": task["prompt"], "model": task["model"] or None}
        return runs.create(order | {"options": options, "timeout": seconds}, task["workspace"]), 202

    def reply(run: str) -> tuple[dict[str, Any], int]:
        return runs.reply(run, **sent("interaction_id", "response")), 202

    run = "/v1/runs/<run>"
    app.add_url_rule("/healthz", "healthz", lambda: {"status": "ok"})
    app.add_url_rule("/v1/runs", "create", create, methods=["POST"])
    app.add_url_rule(run, "show", lambda run: described(runs.find(run)))
    app.add_url_rule(f"{run}/interaction", "interaction", lambda run: interaction(runs.find(run)))
    app.add_url_rule(f"{run}/interaction/reply", "reply", reply, methods=["POST"])
    app.add_url_rule(f"{run}/cancel", "cancel", lambda run: (runs.cancel(run), 202), methods=["POST"])
    return app


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with closing(Orchestrator(Path(os.environ.get("DATA", "data")), Path(os.environ.get("WORKSPACES", ".")))) as runs:
        server = make_server("127.0.0.1", int(os.environ.get("PORT", "8322")), make_app(runs), threaded=True)
        print(f"serves http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
