"""Runs, turns, questions and events as the store keeps them, and the one way in which a run changes its state."""

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from turngate.model import Mode
from turngate_reference.server.states import ENDED, TRANSITIONS, State
from turngate_reference.server.store.database import Store
from turngate_reference.server.store.rows import Run, StoredEvent, StoredQuestion, StoredTurn, Summary, Waiting

MAX_PAGE = 200


@dataclass(frozen=True, slots=True)
class Standing:
    """How a run stands, which may be one of very many."""

    handle: str
    state: State
    turn_index: int
    updated_at: str


def now() -> str:
    """Return the time as ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def insert(connection: sqlite3.Connection, **columns: Any) -> None:
    """Add a run in state `queued`, at the end of the queue."""
    at, request = now(), columns["request"]
    columns |= {name: request[name] for name in ("execution_mode", "session_timeout_sec")}
    columns["model"] = request.get("model")
    values = _columns({**columns, "state": State.QUEUED, "created_at": at, "updated_at": at})
    names = ", ".join(values)
    places = ", ".join("?" * len(values))
    sql = f"INSERT INTO runs ({names}, queue_place) VALUES ({places}, {_NEXT_PLACE})"  # noqa: S608 - our own names
    connection.execute(sql, tuple(values.values()))
    add_event(connection, columns["run_id"], "state", {"state": State.QUEUED, "turn_index": 0})


def transition(
    connection: sqlite3.Connection,
    run_id: str,
    source: State,
    to: State,
    *,
    pending: str | None = None,
    **columns: Any,
) -> bool:
    """Move a run from one state to another, with other columns; False if it is not in that state (any more).

    `pending` is the id of the question that must be the open one. A run that returns to the queue goes to its end.
    """
    if (source, to) not in TRANSITIONS:
        raise ValueError(f"no run goes from {source} to {to}")
    values = _columns({**columns, "state": to, "updated_at": now()})
    assigned = ", ".join(f"{name} = ?" for name in values)
    if to is State.QUEUED:
        assigned += f", queue_place = {_NEXT_PLACE}"
    changed = connection.execute(
        f"UPDATE runs SET {assigned} WHERE run_id = ? AND state = ?"  # noqa: S608 - our own names
        + (" AND pending_interaction_id = ?" if pending is not None else ""),
        (*values.values(), run_id, source, *([pending] if pending is not None else [])),
    ).rowcount
    if changed:
        run = get(connection, run_id)
        told = {"state": to, "turn_index": run.turn_index} | ({"error": run.error} if run.error else {})
        add_event(connection, run_id, "state", told)
    return bool(changed)


def change(connection: sqlite3.Connection, run_id: str, **columns: Any) -> None:
    """Set columns of a run that have nothing to do with its state."""
    values = _columns({**columns, "updated_at": now()})
    assigned = ", ".join(f"{name} = ?" for name in values)
    connection.execute(f"UPDATE runs SET {assigned} WHERE run_id = ?", (*values.values(), run_id))  # noqa: S608 - our own names


def get(connection: sqlite3.Connection, run_id: str) -> Run:
    """Read a run inside a transaction; KeyError if there is none."""
    row = connection.execute("SELECT * FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    if row is None:
        raise KeyError(run_id)
    return _run(row)


def find(store: Store, run_id: str) -> Run | None:
    """Read a run."""
    return next((_run(row) for row in store.read("SELECT * FROM runs WHERE run_id = ?", run_id)), None)


def summaries(
    store: Store, *, state: State | None = None, engine: str | None = None, limit: int = 50, before: int | None = None
) -> list[Summary]:
    """Read what lists show of runs, the newest first; `before` is the `seq` of the last one of the page before."""
    wanted: dict[str, Any] = {"state = ?": state, "engine = ?": engine, "seq < ?": before}
    given = {condition: value for condition, value in wanted.items() if value is not None}
    where = f"WHERE {' AND '.join(given)}" if given else ""
    sql = f"SELECT {_SUMMARY} FROM runs {where} ORDER BY seq DESC LIMIT ?"  # noqa: S608 - our own words
    return [Summary(**_converted(row)) for row in store.read(sql, *given.values(), min(limit, MAX_PAGE))]


def in_state(store: Store, state: State) -> list[Run]:
    """Read every run in one state, in the order of the queue."""
    return [_run(row) for row in store.read("SELECT * FROM runs WHERE state = ? ORDER BY queue_place", state)]


def waiting(store: Store) -> Iterator[Waiting]:
    """Read the runs that wait, one after the other: they may be many, and their requests large."""
    sql = "SELECT run_id, engine, engine_version, profile_json, session_json FROM runs WHERE state = ?"
    return (Waiting(**_plain(row)) for row in store.each(sql, State.WAITING_USER))


def processes(store: Store) -> dict[str, dict[str, Any]]:
    """Read, by run, what was noted of every process that was not seen to be gone."""
    rows = store.read("SELECT run_id, process_json FROM runs WHERE process_json IS NOT NULL")
    return {row["run_id"]: json.loads(row["process_json"]) for row in rows}


def at_terminals(store: Store) -> dict[str, str]:
    """Read the handles, by run, of the running runs whose turn `turngate resume` runs."""
    sql = "SELECT run_id, handle, process_json FROM runs WHERE state = ? AND process_json IS NOT NULL"
    rows = store.read(sql, State.RUNNING)
    return {row["run_id"]: row["handle"] for row in rows if json.loads(row["process_json"]).get("terminal")}


def standings(store: Store) -> list[Standing]:
    """Read how all runs stand."""
    rows = store.read("SELECT handle, state, turn_index, updated_at FROM runs")
    return [Standing(row["handle"], State(row["state"]), row["turn_index"], row["updated_at"]) for row in rows]


def is_wanted(store: Store, run_id: str) -> bool:
    """Return whether a run is running and nobody has asked that it be canceled."""
    sql = "SELECT 1 FROM runs WHERE run_id = ? AND state = ? AND NOT cancel_requested"
    return bool(store.read(sql, run_id, State.RUNNING))


def unfinished_in(store: Store, workspace: Path) -> str | None:
    """Return the id of the unfinished run that works in a workspace; None: there is none."""
    states = ", ".join("?" * len(ENDED))
    sql = f"SELECT run_id FROM runs WHERE workspace = ? AND state NOT IN ({states})"  # noqa: S608 - our own words
    rows = store.read(sql, str(workspace), *ENDED)
    return next((row["run_id"] for row in rows), None)


def counts(store: Store) -> dict[State, int]:
    """Count the runs in each state."""
    found = {State(row["state"]): row["n"] for row in store.read("SELECT state, count(*) n FROM runs GROUP BY state")}
    return {state: found.get(state, 0) for state in State}


def question(store: Store, interaction_id: str) -> StoredQuestion | None:
    """Read a question."""
    rows = store.read("SELECT * FROM interactions WHERE interaction_id = ?", interaction_id)
    return next(map(_question, rows), None)


def question_in(connection: sqlite3.Connection, interaction_id: str) -> StoredQuestion:
    """Read a question inside a transaction; KeyError if there is none."""
    row = connection.execute("SELECT * FROM interactions WHERE interaction_id = ?", (interaction_id,)).fetchone()
    if row is None:
        raise KeyError(interaction_id)
    return _question(row)


def last_answer(store: Store, run_id: str, before_turn: int) -> str | None:
    """Return the reply to the question that a run's turn before `before_turn` ended with."""
    rows = store.read(
        "SELECT response FROM interactions WHERE run_id = ? AND turn_index = ? AND request_id IS NULL",
        run_id, before_turn - 1,
    )  # fmt: skip
    return next((row["response"] for row in rows), None)


def turns(store: Store, run_id: str) -> list[StoredTurn]:
    """Read the turns of a run, the first one first."""
    rows = store.read("SELECT * FROM turns WHERE run_id = ? ORDER BY turn_index", run_id)
    return [StoredTurn(**{name: value for name, value in _plain(row).items() if name != "run_id"}) for row in rows]


def events(store: Store, run_id: str, after: int = 0, limit: int = 100) -> list[StoredEvent]:
    """Read events of a run that are later than `after`."""
    rows = store.read("SELECT * FROM events WHERE run_id = ? AND id > ? ORDER BY id LIMIT ?", run_id, after, limit)
    return [StoredEvent(row["id"], row["type"], json.loads(row["data_json"]), row["at"]) for row in rows]


def as_json(value: Any) -> str | None:
    """Bring a value to JSON; None stays None, which is SQL's null."""
    return None if value is None else json.dumps(value)


def add_event(connection: sqlite3.Connection, run_id: str, kind: str, data: dict[str, Any]) -> None:
    """Add an event."""
    connection.execute(
        "INSERT INTO events (run_id, type, data_json, at) VALUES (?, ?, ?, ?)",
        (run_id, kind, json.dumps(data), now()),
    )


_NEXT_PLACE = "(SELECT coalesce(max(queue_place), 0) + 1 FROM runs)"
_SUMMARY = (
    "seq, run_id, handle, engine, engine_version, state, cancel_requested, execution_mode, model, session_timeout_sec,"
    " workspace, turn_index, profile_json, capability_json, session_json, pending_interaction_id, wait_deadline_at,"
    " error_json, created_at, updated_at, started_at, ended_at"
)
_JSON = ("request", "recovery", "profile", "capability", "session", "process", "error", "final_data")


def _columns(values: dict[str, Any]) -> dict[str, Any]:
    """Bring values to what the store holds: JSON as text, paths as text."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if name in _JSON:
            found[f"{name}_json"] = as_json(value)
        else:
            found[name] = str(value) if isinstance(value, Path) else value
    return found


def _plain(row: sqlite3.Row) -> dict[str, Any]:
    return {
        name.removesuffix("_json"): json.loads(row[name]) if name.endswith("_json") and row[name] else row[name]
        for name in row.keys()  # noqa: SIM118 - iterating a row gives its values
    }


def _run(row: sqlite3.Row) -> Run:
    found = _converted(row)
    del found["queue_place"]
    found["run_directory"] = Path(found["run_directory"])
    return Run(**found)


def _converted(row: sqlite3.Row) -> dict[str, Any]:
    found = _plain(row)
    found["state"] = State(found["state"])
    found["mode"] = Mode(found.pop("execution_mode"))
    found["timeout"] = found.pop("session_timeout_sec")
    found["cancel_requested"] = bool(found["cancel_requested"])
    found["workspace"] = Path(found["workspace"]) if found["workspace"] else None
    return found


def _question(row: sqlite3.Row) -> StoredQuestion:
    return StoredQuestion(**_plain(row))
