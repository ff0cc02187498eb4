"""The one transaction in which a turn ends: the state of its run, and all that must be known by then."""

import json
import secrets
import sqlite3
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from turngate.model import Interaction
from turngate_reference.server.orchestrator.decide import Decision
from turngate_reference.server.states import ENDED, State
from turngate_reference.server.store import runs
from turngate_reference.server.store.database import Store
from turngate_reference.server.store.rows import Run
from turngate_reference.server.store.runs import add_event, now

MAX_CONTEXT = 64 * 2**10


@dataclass(frozen=True, slots=True)
class TurnResult:
    """What a turn came to, apart from what becomes of its run (None: the engine never ran).

    `session_seen` says whether the engine's session store held the session right after the turn that made it.
    """

    seconds: float
    outcome: str = "error"
    exit_code: int | None = None
    repair_level: str | None = None
    session: dict[str, Any] | None = None
    session_seen: bool | None = None


def begin(connection: sqlite3.Connection, run_id: str, turn_index: int) -> None:
    """Note that a turn begins."""
    connection.execute(
        "INSERT INTO turns (run_id, turn_index, started_at) VALUES (?, ?, ?)", (run_id, turn_index, now())
    )
    add_event(connection, run_id, "turn.started", {"turn_index": turn_index})


def note_argv(connection: sqlite3.Connection, run: Run, argv: tuple[str, ...]) -> None:
    """Note what the turn's process was started with."""
    connection.execute(
        "UPDATE turns SET argv_json = ? WHERE run_id = ? AND turn_index = ?",
        (runs.as_json(argv), run.run_id, run.turn_index),
    )


def note_same_argv(connection: sqlite3.Connection, run_id: str, turn_index: int) -> None:
    """Note that a turn runs in the process of the turn before it."""
    connection.execute(
        "UPDATE turns SET argv_json = before.argv_json FROM turns AS before"
        " WHERE turns.run_id = ? AND turns.turn_index = ?"
        " AND before.run_id = turns.run_id AND before.turn_index = turns.turn_index - 1",
        (run_id, turn_index),
    )


def finish(store: Store, run: Run, decision: Decision, came: TurnResult, **columns: Any) -> State:
    """End the running turn of a run; gives the state it went to, which is `canceled` if anybody asked for that.

    `columns` are further ones of the run that are written with the transition.
    """
    with store.writing() as connection:
        current = runs.get(connection, run.run_id)
        if current.cancel_requested:
            decision = Decision(State.CANCELED)
        if came.session_seen is not None:
            columns["recovery"] = {**(current.recovery or {}), "session_seen": came.session_seen}
        if decision.interaction is not None:
            columns["pending_interaction_id"] = _ask(connection, run, decision.interaction)
        columns |= {"error": decision.error, "final_data": decision.final_data}
        if came.session is not None:
            columns["session"] = came.session
        _end_turn(connection, run, decision, came)
        _move(connection, run, decision.state, columns)
    return decision.state


def pause(store: Store, run: Run, interaction: Interaction, request_id: str, **columns: Any) -> bool:
    """Let a running turn wait for what the user says to an action; False: it is to be canceled instead."""
    with store.writing() as connection:
        if runs.get(connection, run.run_id).cancel_requested:
            return False
        pending = _ask(connection, run, replace(interaction, context=_bounded(interaction.context)), request_id)
        return runs.transition(
            connection, run.run_id, State.RUNNING, State.WAITING_USER, pending_interaction_id=pending, **columns
        )


def drop_request(store: Store, run_id: str) -> None:
    """Let a run go on that waits for what the user says to an action: the engine has ended the turn without it."""
    with store.writing() as connection:
        run = runs.get(connection, run_id)
        pending = run.pending_interaction_id if run.state is State.WAITING_USER else None
        if pending is not None and runs.question_in(connection, pending).request_id is not None:
            runs.transition(
                connection, run_id, State.WAITING_USER, State.RUNNING,
                pending=pending, pending_interaction_id=None, wait_deadline_at=None,
            )  # fmt: skip


def end_open_turn(connection: sqlite3.Connection, run: Run, decision: Decision, seconds: float) -> bool:
    """End the turn in which a run waited for what the user says to an action; False: it waited between two turns."""
    is_open = connection.execute(
        "SELECT 1 FROM turns WHERE run_id = ? AND turn_index = ? AND ended_at IS NULL", (run.run_id, run.turn_index)
    ).fetchone()
    if is_open:
        _end_turn(connection, run, decision, TurnResult(seconds))
    return bool(is_open)


def end_process(connection: sqlite3.Connection, run_id: str, exit_code: int | None) -> None:
    """Note that nothing is left of the process of a sticky run, and with which exit code it ended its last turn."""
    runs.change(connection, run_id, process=None)
    last = "SELECT MAX(turn_index) FROM turns WHERE run_id = ?"
    change = f"UPDATE turns SET exit_code = ? WHERE run_id = ? AND turn_index = ({last})"  # noqa: S608 - no value is in it
    connection.execute(change, (exit_code, run_id, run_id))


def _move(connection: sqlite3.Connection, run: Run, to: State, columns: dict[str, Any]) -> None:
    columns.setdefault("process", None)
    if to in ENDED:
        columns["ended_at"] = now()
    if not runs.transition(connection, run.run_id, State.RUNNING, to, **columns):
        raise RuntimeError(f"{run.run_id} does not run any more")


def _end_turn(connection: sqlite3.Connection, run: Run, decision: Decision, came: TurnResult) -> None:
    failure = runs.as_json(decision.error)
    connection.execute(
        "UPDATE turns SET ended_at = ?, seconds = ?, exit_code = ?, outcome = ?, failure_json = ?, repair_level = ?"
        " WHERE run_id = ? AND turn_index = ?",
        (now(), came.seconds, came.exit_code, came.outcome, failure, came.repair_level, run.run_id, run.turn_index),
    )
    add_event(connection, run.run_id, "turn.ended", {"turn_index": run.turn_index, "outcome": came.outcome})


def _ask(connection: sqlite3.Connection, run: Run, interaction: Interaction, request_id: str | None = None) -> str:
    """Store a question; gives its id."""
    asked = asdict(interaction)
    interaction_id = secrets.token_hex(8)
    connection.execute(
        "INSERT INTO interactions (interaction_id, run_id, turn_index, question_json, request_id, asked_at)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (interaction_id, run.run_id, run.turn_index, runs.as_json(asked), request_id, now()),
    )
    add_event(connection, run.run_id, "interaction", {"interaction_id": interaction_id, **asked})
    return interaction_id


def _bounded(context: Mapping[str, Any]) -> Mapping[str, Any]:
    """Cut the context of an action to what can be kept and shown."""
    text = json.dumps(context)
    return context if len(text) <= MAX_CONTEXT else {"excerpt": text[:MAX_CONTEXT]}
