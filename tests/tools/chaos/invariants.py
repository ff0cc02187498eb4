"""What must be true after every round; each violation is a sentence with its facts."""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil

from tests.tools.chaos.caller import CallerRun
from tests.tools.chaos.plan import Round
from turngate_reference.states import TRANSITIONS, State

LOST = {"ORCHESTRATOR_RESTART_INTERRUPTED", "INTERACTION_PROCESS_LOST"}
SHORTAGE = {
    "ORCHESTRATOR_ERROR",
    "ENGINE_FAILED",
    "ENGINE_UNAVAILABLE",
    "SESSION_RESUME_FAILED",
    "INTERACTION_PROCESS_LOST",
}
_MODES = {True: 0o700, False: 0o600}


def broken(folder: Path, planned: Round, runs: list[CallerRun], *, interrupted: bool) -> list[str]:
    """Return the violations after the last server has ended; `interrupted`: an earlier server was interrupted."""
    with closing(sqlite3.connect(folder / "data" / "turngate.db")) as connection:
        connection.row_factory = sqlite3.Row
        rows = {row["run_id"]: dict(row) for row in connection.execute("SELECT * FROM runs")}
        events = [dict(row) for row in connection.execute("SELECT * FROM events ORDER BY id")]
        answers = {row["interaction_id"]: row["response"] for row in connection.execute("SELECT * FROM interactions")}
        turns = [dict(row) for row in connection.execute("SELECT * FROM turns ORDER BY run_id, turn_index")]
    executed = Counter(_executed(folder))
    return [
        *_lost(rows, runs),
        *(sentence for row in rows.values() for sentence in _states(row, events, turns)),
        *_outcomes(rows, planned, runs, interrupted=interrupted),
        *_replies(rows, answers, executed, runs),
        *_streams(events, runs),
        *_permissions(folder / "data"),
        *orphans(folder),
    ]


def orphans(folder: Path) -> Iterator[str]:
    """Name the engine processes of a round that are still alive."""
    for process in living(folder):
        yield f"no process is left behind: {process.pid} is alive"


def living(folder: Path) -> list[psutil.Process]:
    """Return the living engine processes of a round, which have its folder among their arguments."""
    engine = f"main({str(folder / 'bin')!r})"
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if engine in " ".join(process.info["cmdline"] or ()) and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def _lost(rows: dict[str, Any], runs: list[CallerRun]) -> Iterator[str]:
    """Check that no run answered with 202 is lost, and that none was created twice."""
    for run in runs:
        if run.run_id and run.run_id not in rows:
            yield f"no run is lost: {run.planned.name} was"
    prompts = Counter(json.loads(row["request_json"])["prompt"] for row in rows.values())
    for run in runs:
        if (count := prompts[run.planned.prompt(1)]) > 1:
            yield f"one key creates one run: {run.planned.name} was created {count} times"


def _states(row: dict[str, Any], events: list[dict[str, Any]], turns: list[dict[str, Any]]) -> Iterator[str]:
    """Check that runs took only allowed transitions, and that all stored data agrees on their states."""
    name, mine = row["run_id"], [event for event in events if event["run_id"] == row["run_id"]]
    states = [State(json.loads(event["data_json"])["state"]) for event in mine if event["type"] == "state"]
    for source, to in pairwise(states):
        if to not in TRANSITIONS[source].values():
            yield f"a run moves by the table of transitions: {name} went from {source} to {to}"
    if states[-1] != row["state"]:
        yield f"a run is in one state: {name} is {row['state']}, by its events {states[-1]}"
    own = [turn for turn in turns if turn["run_id"] == name]
    if [turn["turn_index"] for turn in own] != list(range(1, row["turn_index"] + 1)):
        yield f"turns are numbered without gaps: {name} has {[turn['turn_index'] for turn in own]}"
    if any(turn["ended_at"] is None for turn in own):
        yield f"a turn of an ended run has ended: one of {name} has not"
    expected = len(own) + sum(event["type"] == "reply.returned" for event in mine)
    for kind in ("turn.started", "turn.ended"):
        if (count := sum(event["type"] == kind for event in mine)) != expected:
            yield f"each turn begins and ends once: {name} has {expected} turns and {count} events {kind}"
    if row["process_json"] is not None:
        yield f"an ended run has no process: {name} has {row['process_json']}"


def _outcomes(rows: dict[str, Any], planned: Round, runs: list[CallerRun], *, interrupted: bool) -> Iterator[str]:
    """Check that every run ended as planned, or with a code that explains why not."""
    excused = (LOST if interrupted else set()) | (
        SHORTAGE if planned.fault in ("full disk", "no descriptors") else set()
    )
    for run in runs:
        if (row := rows.get(run.run_id)) is None:
            continue
        code = json.loads(row["error_json"])["code"] if row["error_json"] else ""
        as_planned = (row["state"], code) == (run.planned.state, run.planned.code)
        canceled = row["state"] == "canceled" and run.planned.cancel
        # # a cancel that arrived too late
        ended_first = run.planned.cancel and row["state"] == "succeeded"
        if not (as_planned or canceled or ended_first or (row["state"] == "failed" and code in excused)):
            yield f"a run ends as it must: {run.planned.name} is {row['state']} {row['error_json'] or ''}"
        profile = json.loads(row["profile_json"])["kind"] if row["profile_json"] else ""
        if code == "INTERACTION_PROCESS_LOST" and profile == "resumable":
            yield f"a waiting resumable run survives a restart: {run.planned.name} was lost"


def _replies(
    rows: dict[str, Any], answers: dict[str, Any], executed: Counter[str], runs: list[CallerRun]
) -> Iterator[str]:
    """Check that no prompt or reply is executed twice, and that no reply answered with 202 is dropped."""
    for token, times in executed.items():
        if times > 1:
            yield f"nothing is executed twice: {token} was, {times} times"
    for run in runs:
        for reply in run.replies.values():
            if reply.status != 202:
                continue
            if answers.get(reply.interaction_id) != reply.response:
                yield f"a reply that was answered with 202 is stored: one of {run.planned.name} is not"
            done = reply.turn is None or executed[run.planned.token(reply.turn)] == 1
            if rows.get(run.run_id, {}).get("state") == "succeeded" and not done:
                yield f"a reply that was answered with 202 is executed: turn {reply.turn} of {run.planned.name} was not"


def _streams(events: list[dict[str, Any]], runs: list[CallerRun]) -> Iterator[str]:
    """Check that the events which clients saw are exactly the stored ones, across restarts and reconnections."""
    if (ids := [event["id"] for event in events]) != list(range(1, len(ids) + 1)):
        yield f"the ids of events have no gaps: {ids}"
    for run in runs:
        saved = [
            (event["id"], event["type"], json.loads(event["data_json"]) | {"at": event["at"]})
            for event in events
            if event["run_id"] == run.run_id
        ]
        if saved != [tuple(event) for event in run.events]:
            yield f"a stream shows what is stored: that of {run.planned.name} has {len(run.events)} of {len(saved)}"


def _permissions(data: Path) -> Iterator[str]:
    """Check that everything the server made is private to its user; files made by engines may differ."""
    for path in (data, *data.rglob("*")):
        mode = path.stat().st_mode & 0o777
        if "work" not in path.parts and mode != _MODES[path.is_dir()]:
            yield f"files are private: {path.relative_to(data)} has mode {mode:o}"


def _executed(folder: Path) -> Iterator[str]:
    """Return the token of each prompt that an engine received."""
    ledger = folder / "bin" / "prompts"
    for line in ledger.read_text().splitlines() if ledger.exists() else ():
        yield next(text for text in json.loads(line).splitlines() if text.startswith("token: "))
