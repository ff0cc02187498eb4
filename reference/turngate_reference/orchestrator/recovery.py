"""After a restart: ends what the server before has left running, and settles every run that it left open."""

import logging
import re
from functools import cache
from typing import Any

from turngate import load
from turngate.errors import TurngateError
from turngate.runtime import Noted, end_orphans
from turngate_reference.orchestrator.decide import Decision, failed
from turngate_reference.orchestrator.records import keep_record
from turngate_reference.states import RunErrorCode, State
from turngate_reference.store import runs
from turngate_reference.store.database import Store
from turngate_reference.store.runs import Run, Waiting

log = logging.getLogger(__name__)


def recover(store: Store) -> None:
    """Settle what is `running` or `waiting_user`; what is `queued` stays so, and is started in its turn."""
    running = runs.in_state(store, State.RUNNING)
    lost = [(run.run_id, why) for run in runs.waiting(store) if (why := _lost(run)) is not None]
    left = end_orphans(map(_noted, runs.processes(store)))
    if left:
        # any of the notes may lead to them, so the next server gets them all
        log.error("these processes of an earlier server could not be ended: %s", ", ".join(map(str, left)))
    else:
        with store.writing() as connection:
            connection.execute("UPDATE runs SET process_json = NULL WHERE process_json IS NOT NULL")
    for run in running:
        interrupted = failed(RunErrorCode.ORCHESTRATOR_RESTART_INTERRUPTED, "the server ended while the turn ran")
        _end(store, run, Decision(State.CANCELED) if run.cancel_requested else interrupted)
    for run_id, (code, detail) in lost:
        if (waits := runs.find(store, run_id)) is not None:
            _end(store, waits, failed(code, detail))


def _lost(run: Waiting) -> tuple[RunErrorCode, str] | None:
    """Say why a waiting run can't be answered any more; None: it can, as far as presence and shape tell."""
    if run.profile is None or run.profile["kind"] != "resumable":
        return RunErrorCode.INTERACTION_PROCESS_LOST, "the server ended, and with it the process that waited"
    value = run.session["handle_value"] if run.session else None
    if value is None or not _has_shape(run, value):
        return RunErrorCode.SESSION_RESUME_FAILED, "at the restart: no session id of the engine's shape was kept"
    return None


def _has_shape(run: Waiting, value: str) -> bool:
    try:
        shape = _shape(run.engine, run.engine_version)
    except (TurngateError, ValueError):
        return True  # the contract says nothing of that release; the resume will tell
    return re.fullmatch(shape, value) is not None


@cache
def _shape(engine: str, version: str | None) -> str:
    return load.contract(engine).at(version).handle.shape


def _end(store: Store, run: Run, decision: Decision) -> None:
    """End a run, and its turn if that had not ended: a turn that asks for permission waits amid itself."""
    keep_record(run, decision, run.session)
    with store.writing() as connection:
        at = runs.now()
        ended = connection.execute(
            "UPDATE turns SET ended_at = ?, outcome = 'error', failure_json = ?"
            " WHERE run_id = ? AND turn_index = ? AND ended_at IS NULL",
            (at, runs.as_json(decision.error), run.run_id, run.turn_index),
        ).rowcount
        if ended:
            runs.add_event(connection, run.run_id, "turn.ended", {"turn_index": run.turn_index, "outcome": "error"})
        runs.transition(
            connection, run.run_id, run.state, decision.state,
            error=decision.error, pending_interaction_id=None, wait_deadline_at=None, ended_at=at,
        )  # fmt: skip


def _noted(process: dict[str, Any]) -> Noted:
    return Noted(process.get("tag", ""), process.get("pid"), process.get("started_at"))
