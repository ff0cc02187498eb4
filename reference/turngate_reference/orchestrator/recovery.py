"""After a restart: ends what the server before has left running, and settles every run that it left open."""

import logging
import re
import sqlite3
from functools import cache

from turngate import load
from turngate.errors import TurngateError
from turngate.runtime import Noted, end_orphans
from turngate_reference.states import RunErrorCode, State
from turngate_reference.store import runs
from turngate_reference.store.database import Store
from turngate_reference.store.runs import Run

log = logging.getLogger(__name__)


def recover(store: Store) -> None:
    """Settle what is `running` or `waiting_user`; what is `queued` stays so, and is started in its turn."""
    running = runs.in_state(store, State.RUNNING)
    waiting = runs.in_state(store, State.WAITING_USER)
    lost = [(run, why) for run in waiting if (why := _lost(run)) is not None]
    left = end_orphans(_noted(run) for run in runs.with_process(store))
    if left:
        log.error("these processes of an earlier server could not be ended: %s", ", ".join(map(str, left)))
    with store.writing() as connection:
        connection.execute("UPDATE runs SET process_json = NULL WHERE process_json IS NOT NULL")
    for run in running:
        _interrupted(store, run)
    for run, (code, detail) in lost:
        _fail(store, run, code, detail)


def _interrupted(store: Store, run: Run) -> None:
    if run.cancel_requested:
        with store.writing() as connection:
            runs.transition(
                connection, run.run_id, State.RUNNING, State.CANCELED, ended_at=runs.now()
            )  # fmt: skip
            _end_turn(connection, run)
        return
    _fail(store, run, RunErrorCode.ORCHESTRATOR_RESTART_INTERRUPTED, "the server ended while the turn ran")


def _lost(run: Run) -> tuple[RunErrorCode, str] | None:
    """Say why a waiting run can't be answered any more; None: it can, as far as presence and shape tell."""
    if run.profile is None or run.profile["kind"] != "resumable":
        return RunErrorCode.INTERACTION_PROCESS_LOST, "the server ended, and with it the process that waited"
    value = run.session["handle_value"] if run.session else None
    if value is None or not _has_shape(run, value):
        return RunErrorCode.SESSION_RESUME_FAILED, "at the restart: no session id of the engine's shape was kept"
    return None


def _has_shape(run: Run, value: str) -> bool:
    try:
        shape = _shape(run.engine, run.engine_version)
    except (TurngateError, ValueError):
        return True  # the contract says nothing of that release; the resume will tell
    return re.fullmatch(shape, value) is not None


@cache
def _shape(engine: str, version: str | None) -> str:
    return load.contract(engine).at(version).handle.shape


def _fail(store: Store, run: Run, code: RunErrorCode, detail: str) -> None:
    with store.writing() as connection:
        error = {"code": code.value, "detail": detail}
        runs.transition(
            connection, run.run_id, run.state, State.FAILED,
            error=error, pending_interaction_id=None, wait_deadline_at=None, ended_at=runs.now(),
        )  # fmt: skip
        if run.state is State.RUNNING:
            _end_turn(connection, run, error)


def _end_turn(connection: sqlite3.Connection, run: Run, error: dict[str, str] | None = None) -> None:
    connection.execute(
        "UPDATE turns SET ended_at = ?, outcome = 'error', failure_json = ? WHERE run_id = ? AND turn_index = ?",
        (runs.now(), runs.as_json(error), run.run_id, run.turn_index),
    )


def _noted(run: Run) -> Noted:
    process = run.process or {}
    return Noted(process.get("tag", ""), process.get("pid"), process.get("started_at"))
