"""The transactions that move runs and their turns: claims, replies, questions, and how turns and runs end.

`states` explains how a run moves.
"""

import json
import secrets
import sqlite3
from collections.abc import Collection, Sequence
from typing import Any

from msgspec import structs, to_builtins
from msgspec.structs import replace

from turngate import Interaction, Mode
from turngate.decoding import decode
from turngate.model import MAX_PROMPT
from turngate_reference.handle_record import after, now
from turngate_reference.server.orchestrator.decide import Decision, TurnResult
from turngate_reference.server.orchestrator.run_files import Records
from turngate_reference.server.orchestrator.turn_states import Plan, Written
from turngate_reference.server.store import files, runs
from turngate_reference.server.store.database import Store
from turngate_reference.server.store.events import (
    DeliveryEvent,
    QuestionEvent,
    ReplyEvent,
    ReplyReturnEvent,
    TurnEndEvent,
    TurnStartEvent,
    add_event,
)
from turngate_reference.server.store.runs import IdempotentRequest, ProcessNote, Recovery, Run, UnsentReply
from turngate_reference.server.transports.events import Gone
from turngate_reference.states import ENDED, Cause, Delivery, RunError, RunErrorCode, State

MAX_CONTEXT = 64 * 2**10
_RETURNED = "returned"  # the outcome of a turn for which no process was started
# a run that asks for a sticky process needs no engine that resumes
_NEEDS_RESUME = """
    execution_mode = ? AND turn_index = 0
    AND coalesce(json_extract(request_json, '$.interactive_profile'), '') <> 'sticky_process'
"""
_MAY_BEGIN = f"""
    SELECT run_id, turn_index, started_at, process_json FROM runs
    WHERE state = ? AND (engine IN (SELECT value FROM json_each(?)) OR NOT ({_NEEDS_RESUME}))
    ORDER BY queue_place LIMIT 1
"""  # noqa: S608 - our own words


def first_turns(store: Store) -> list[str]:
    """Return the engines with an interactive run in the queue that has not started, and may have to resume."""
    sql = f"SELECT DISTINCT engine FROM runs WHERE state = ? AND {_NEEDS_RESUME}"  # noqa: S608 - our own words
    return [row["engine"] for row in store.read(sql, State.QUEUED, Mode.INTERACTIVE)]


def claim(store: Store, tag: str, settled: Collection[str]) -> Run | None:
    """Claim the first run in the queue that may start, and start its next turn; None if there is none.

    The tag for its processes is stored with it, so that they can be found even if the server dies. Interactive runs
    start only if their engine is among `settled`, or if they ask for a sticky process; those that have started go on.
    """
    with store.writing() as connection:
        conditions = State.QUEUED, json.dumps([*settled]), Mode.INTERACTIVE
        row = connection.execute(_MAY_BEGIN, conditions).fetchone()
        if row is None:
            return None
        kept = decode(row["process_json"], ProcessNote) if row["process_json"] else None
        return _begin_turn(
            connection,
            row["run_id"],
            Cause.CLAIMED,
            State.QUEUED,
            row["turn_index"] + 1,
            process=ProcessNote(tag, kept=kept, unsent=row["turn_index"] > 0),
            started_at=row["started_at"] or now(),
        )


def claim_at_terminal(store: Store, run: Run, response: str, tag: str) -> Run | None:
    """Take the reply to a run's question, and begin the next turn immediately; None if the question is already closed.

    The run never enters the queue, so no server starts this turn too. `tag` is what the turn's processes will carry.
    """
    with store.writing() as connection:
        current = runs.get(connection, run.run_id)
        if (current.state, current.pending_interaction_id) != (State.WAITING_USER, run.pending_interaction_id):
            return None
        _close_question(connection, run, response, terminal=True)
        return _begin_turn(
            connection,
            run.run_id,
            Cause.REPLIED_AT_TERMINAL,
            State.WAITING_USER,
            run.turn_index + 1,
            pending_interaction_id=None,
            process=ProcessNote(tag, terminal=True, kept=current.process, unsent=True),
        )


def take_reply(connection: sqlite3.Connection, run: Run, response: str, *, permission: bool) -> None:
    """Take the reply to the open question: a resumable run is queued, a sticky one continues in its process.

    A reply that gives or refuses a permission belongs to the turn that asked; any other begins the next one. If the
    process is gone already, and the owner is about to fail the run for it, it fails that turn instead.
    """
    _close_question(connection, run, response)
    columns: dict[str, Any] = {"pending_interaction_id": None, "wait_deadline_at": None}
    if not run.is_sticky:
        runs.transition(connection, run.run_id, run.state, Cause.REPLIED, **columns)
    elif permission:
        runs.transition(connection, run.run_id, run.state, Cause.PERMISSION_REPLIED, **columns)
    else:
        _begin_turn(connection, run.run_id, Cause.REPLIED_TO_PROCESS, run.state, run.turn_index + 1, **columns)
        connection.execute(
            "UPDATE turns SET (argv_json, engine_version) ="
            " (SELECT argv_json, engine_version FROM turns WHERE run_id = ? AND turn_index = ?)"
            " WHERE run_id = ? AND turn_index = ?",
            (run.run_id, run.turn_index, run.run_id, run.turn_index + 1),
        )


def continue_ended(connection: sqlite3.Connection, records: Records, run: Run, message: str) -> None:
    """Queue a run that has ended again, with a message as the answer to how it should go on.

    The result that it had stays with its last turn. Its record is written, so that nobody removes it as an old one.
    """
    ended = {State.SUCCEEDED: "The run has succeeded.", State.CANCELED: "The run was canceled."}
    why = f"The run failed: {run.error.detail} ({run.error.code})." if run.error else ended[run.state]
    pending = _ask(connection, run, Interaction("open_text", f"{why[: MAX_PROMPT - 100]} How should it go on?"))
    connection.execute("UPDATE interactions SET unsent_json = NULL WHERE run_id = ?", (run.run_id,))
    _close_question(connection, replace(run, pending_interaction_id=pending), message)
    connection.execute(
        "UPDATE turns SET final_data_json = (SELECT final_data_json FROM runs WHERE runs.run_id = turns.run_id)"
        " WHERE run_id = ? AND turn_index = ?",
        (run.run_id, run.turn_index),
    )
    columns = dict.fromkeys(("error", "final_data", "ended_at", "pending_interaction_id"))
    runs.transition(connection, run.run_id, run.state, Cause.CONTINUED, cancel_requested=0, **columns)
    records.keep(run, State.QUEUED, run.session)


def mark(store: Store, plan: Plan) -> None:
    """Record what turn 1 has settled, and that a process gets the reply of the turn from now on."""
    with store.writing() as connection:
        if plan.settled:
            runs.change(connection, plan.run.run_id, **plan.settled)
        if plan.command is not None:
            note_sent(connection, plan.run.run_id, sent=True)


def note_sent(connection: sqlite3.Connection, run_id: str, *, sent: bool) -> None:
    """Record whether a process may have got the reply of a running turn; no reply belongs to turn 1."""
    run = runs.get(connection, run_id)
    if run.state is State.RUNNING and run.turn_index > 1 and run.process is not None:
        runs.change(connection, run_id, process=replace(run.process, unsent=not sent))


def can_return(run: Run, error: RunError) -> bool:
    """Whether the reply of a running turn, which ends with an error, goes back to its user: no process has it.

    Not if the session, or the process that the run keeps, is gone, since no later reply could reach it either.
    """
    is_unsent = run.state is State.RUNNING and run.process is not None and run.process.unsent
    return (
        is_unsent
        and not run.is_sticky
        and error.code != RunErrorCode.SESSION_RESUME_FAILED
        and not run.cancel_requested
    )


def return_reply(
    connection: sqlite3.Connection, records: Records, run: Run, why: RunError, left: ProcessNote | None
) -> None:
    """Undo the claim of a turn for which no process was started, and open its question again.

    `left` is the note of a process that the run still has.
    """
    question, before = runs.last_answered(connection, run.run_id, run.turn_index), run.turn_index - 1
    connection.execute("DELETE FROM turns WHERE run_id = ? AND turn_index = ?", (run.run_id, run.turn_index))
    add_event(connection, run.run_id, TurnEndEvent(run.turn_index, _RETURNED))
    columns: dict[str, Any] = {"turn_index": before, "process": left}
    runs.transition(connection, run.run_id, State.RUNNING, Cause.NOT_STARTED, **columns)
    _keep_unsent(connection, question.interaction_id, question.response or "", why)
    sql = "UPDATE interactions SET response = NULL, answered_at = NULL WHERE interaction_id = ?"
    connection.execute(sql, (question.interaction_id,))
    IdempotentRequest.forget(connection, run.run_id, before)
    add_event(connection, run.run_id, ReplyReturnEvent(question.interaction_id, why.code, why.detail))
    pending = question.interaction_id
    runs.transition(connection, run.run_id, State.QUEUED, Cause.REPLY_RETURNED, pending_interaction_id=pending)
    # before the commit: whoever reads the new state finds the record
    records.keep(runs.get(connection, run.run_id), State.WAITING_USER, run.session)


def keep_unsent_of(connection: sqlite3.Connection, run: Run, decision: Decision) -> None:
    """Keep the reply of a turn that fails its run without a process having got it."""
    if decision.error is not None and run.process is not None and run.process.unsent:
        question = runs.last_answered(connection, run.run_id, run.turn_index)
        _keep_unsent(connection, question.interaction_id, question.response or "", decision.error)


def _keep_unsent(connection: sqlite3.Connection, interaction_id: str, response: str, why: RunError) -> None:
    unsent = runs.as_json(UnsentReply(response, why.code, why.detail))
    connection.execute("UPDATE interactions SET unsent_json = ? WHERE interaction_id = ?", (unsent, interaction_id))


def note_start(
    connection: sqlite3.Connection, run: Run, argv: Sequence[str], version: str | None, delivery: Delivery
) -> None:
    """Record that the prompt of a turn goes to a process, how that was started, and which release it is."""
    connection.execute(
        "UPDATE turns SET argv_json = ?, engine_version = ? WHERE run_id = ? AND turn_index = ?",
        (runs.as_json(argv), version, run.run_id, run.turn_index),
    )
    runs.change(connection, run.run_id, engine_version=version)
    add_event(connection, run.run_id, DeliveryEvent(run.turn_index, delivery))


def end_turn(
    store: Store, records: Records, run: Run, decision: Decision, result: TurnResult, *, is_sent: bool
) -> Written | None:
    """End the running turn of a run, as `end` does; `is_sent`: a process may have got its prompt.

    None: nothing has changed, since a run is canceled only once the process that `result` names has ended. If somebody
    has ended the turn, only the files that it changed are recorded.
    """
    with store.writing() as connection:
        current = runs.get(connection, run.run_id)
        if current.state in ENDED or current.turn_index != run.turn_index or _is_of_another(current, run):
            if result.files is not None:
                files.record(connection, run.run_id, run.turn_index, result.files)
            return Written(current.state, counts=False)
        if not is_sent:
            note_sent(connection, run.run_id, sent=False)
            current = runs.get(connection, run.run_id)
        if current.cancel_requested:
            if result.process is not None:
                return None
            decision = Decision(Cause.CANCELED)
        return Written(end(connection, records, current, decision, result))


def _is_of_another(current: Run, run: Run) -> bool:
    """Whether the running turn is a later one: after a reply was returned, its number is used again."""
    return current.process is not None and run.process is not None and current.process.tag != run.process.tag


def end(connection: sqlite3.Connection, records: Records, run: Run, decision: Decision, result: TurnResult) -> State:
    """End the turn of a run, if one is open, and move the run; return its new state.

    The caller has read `run` in this transaction. If the turn failed before a process got its reply, the reply goes
    back to its user, and the run waits again.
    """
    if decision.error is not None and can_return(run, decision.error):
        return_reply(connection, records, run, decision.error, result.process)
        return State.WAITING_USER
    keep_unsent_of(connection, run, decision)
    session = result.session or run.session
    columns: dict[str, Any] = {
        "error": decision.error,
        "final_data": decision.final_data,
        "session": session,
        "process": result.process,
        "pending_interaction_id": decision.interaction and _ask(connection, run, decision.interaction),
        "wait_deadline_at": None,
    }
    if result.session_seen is not None:
        run = replace(run, recovery=replace(run.recovery or Recovery(), session_seen=result.session_seen))
        columns["recovery"] = run.recovery
    if decision.state in ENDED:
        columns["ended_at"] = now()
    elif run.is_sticky:
        columns["wait_deadline_at"] = after(run.session_timeout_sec)
    _end_turn(connection, run, decision, result)
    runs.transition(connection, run.run_id, run.state, decision.cause, **columns)
    # before the commit: whoever reads the new state finds the record
    records.keep(run, decision.state, session)
    return decision.state


def ask_permission(store: Store, run: Run, interaction: Interaction, request_id: str, **columns: Any) -> bool:
    """Make a running turn wait for the user's permission; False if it must be canceled instead."""
    with store.writing() as connection:
        if runs.get(connection, run.run_id).cancel_requested:
            return False
        text = json.dumps(interaction.context)
        if len(text) > MAX_CONTEXT:
            interaction = replace(interaction, context={"excerpt": text[:MAX_CONTEXT]})
        pending = _ask(connection, run, interaction, request_id)
        return runs.transition(
            connection, run.run_id, State.RUNNING, Cause.PERMISSION_ASKED, pending_interaction_id=pending, **columns
        )


def drop_permission(store: Store, run_id: str) -> bool:
    """Continue a run that waits for a permission: the engine has ended the turn without it. False: it has ended."""
    with store.writing() as connection:
        run = runs.get(connection, run_id)
        pending = run.pending_interaction_id if run.state is State.WAITING_USER else None
        if pending is not None and runs.question_in(connection, pending).request_id is not None:
            runs.transition(
                connection,
                run_id,
                State.WAITING_USER,
                Cause.PERMISSION_DROPPED,
                pending_interaction_id=None,
                wait_deadline_at=None,
            )
        return runs.get(connection, run_id).state is State.RUNNING


def fail_waiting(
    store: Store, records: Records, run_id: str, decision: Decision, seconds: float, gone: Gone | None
) -> bool:
    """Fail the run of a kept process if it waits; False: a reply was first.

    If it waits for a decision, its turn ends after so many seconds. If the process is gone, that is stored as well.
    """
    with store.writing() as connection:
        run = runs.get(connection, run_id)
        if run.state is State.WAITING_USER:
            end(connection, records, run, decision, TurnResult(seconds, process=run.process))
        if gone is not None and run.state is not State.RUNNING:
            end_process(connection, run_id, gone.exit_code)
    return run.state is not State.RUNNING


def end_process(connection: sqlite3.Connection, run_id: str, exit_code: int | None) -> None:
    """Record that the process of a sticky run is gone, and the exit code of its last turn."""
    runs.change(connection, run_id, process=None)
    last = "SELECT MAX(turn_index) FROM turns WHERE run_id = ?"
    change = f"UPDATE turns SET exit_code = ? WHERE run_id = ? AND turn_index = ({last})"  # noqa: S608 - no value is in it
    connection.execute(change, (exit_code, run_id, run_id))


def _begin_turn(
    connection: sqlite3.Connection, run_id: str, cause: Cause, source: State, turn_index: int, **columns: Any
) -> Run:
    runs.transition(connection, run_id, source, cause, turn_index=turn_index, **columns)
    connection.execute(
        "INSERT INTO turns (run_id, turn_index, started_at) VALUES (?, ?, ?)", (run_id, turn_index, now())
    )
    add_event(connection, run_id, TurnStartEvent(turn_index))
    return runs.get(connection, run_id)


def _end_turn(connection: sqlite3.Connection, run: Run, decision: Decision, result: TurnResult) -> None:
    """End the turn of a run, unless it has ended, as that of a run that waits for a reply."""
    ended = connection.execute(
        "UPDATE turns SET ended_at = ?, seconds = ?, exit_code = ?, outcome = ?, failure_json = ?, repair_level = ?,"
        " reported_json = ? WHERE run_id = ? AND turn_index = ? AND ended_at IS NULL",
        (
            now(),
            result.seconds,
            result.exit_code,
            result.outcome,
            runs.as_json(decision.error),
            result.repair_level,
            json.dumps(to_builtins(result.reported)),
            run.run_id,
            run.turn_index,
        ),
    ).rowcount
    if not ended:
        return
    if result.files is not None:
        files.record(connection, run.run_id, run.turn_index, result.files)
    add_event(connection, run.run_id, TurnEndEvent(run.turn_index, result.outcome))


def _ask(connection: sqlite3.Connection, run: Run, interaction: Interaction, request_id: str | None = None) -> str:
    """Store a question; returns its id."""
    asked = structs.asdict(interaction)
    interaction_id = secrets.token_hex(8)
    connection.execute(
        "INSERT INTO interactions (interaction_id, run_id, turn_index, question_json, request_id, asked_at)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (interaction_id, run.run_id, run.turn_index, runs.as_json(asked), request_id, now()),
    )
    add_event(connection, run.run_id, QuestionEvent(interaction_id=interaction_id, **asked))
    return interaction_id


def _close_question(connection: sqlite3.Connection, run: Run, response: str, *, terminal: bool = False) -> None:
    """Store the reply to the open question of a run; `terminal` says that it came from `turngate resume`."""
    pending = run.pending_interaction_id or ""
    sql = "UPDATE interactions SET response = ?, answered_at = ?, unsent_json = NULL WHERE interaction_id = ?"
    connection.execute(sql, (response, now(), pending))
    add_event(connection, run.run_id, ReplyEvent(pending, terminal=terminal))
