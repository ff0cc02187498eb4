"""Ends what a dead server or terminal left running, and settles its unfinished runs."""

import logging
import threading
from contextlib import suppress
from itertools import chain

from msgspec.structs import replace

from turngate import ContractError, MachineError, Reported, UsageError
from turngate.contract.session_ids import unsafe
from turngate.process.family import Noted, end_orphans
from turngate.turn.read import session_caveats
from turngate_reference.data_dir import locked
from turngate_reference.engine.attempt import contract_for
from turngate_reference.server.orchestrator import transitions
from turngate_reference.server.orchestrator.continuation import with_session
from turngate_reference.server.orchestrator.decide import INTERRUPTED, UNANSWERABLE, Decision, TurnResult, failed
from turngate_reference.server.orchestrator.run_files import Records
from turngate_reference.server.store import runs
from turngate_reference.server.store.database import Store
from turngate_reference.server.store.runs import ProcessNote, Run, Summary
from turngate_reference.states import Cause, RunErrorCode, State

log = logging.getLogger(__name__)


def recover(store: Store, records: Records) -> None:
    """Settle the runs that an earlier server left `running` or `waiting_user`; `queued` runs start normally.

    Turns run by a living terminal are left alone. Remains of unfinished creations are removed.
    """
    records.remove_unborn(runs.ids(store))
    settle_terminal_turns(store, records)
    running = [run for run in runs.in_state(store, State.RUNNING) if not (run.process and run.process.terminal)]
    lost = [(run.run_id, why) for run in runs.waiting(store) if (why := _lost(run)) is not None]
    noted = runs.processes(store)
    for run_id in runs.at_terminals(store):  # asked last, since a terminal may begin a turn at any time
        noted.pop(run_id, None)
    left = end_orphans(chain.from_iterable(map(noted_processes, noted.values())))
    if left:
        # any of the noted processes may be the parent, so the next server gets all notes
        log.error("could not stop these processes of an earlier server: %s", ", ".join(map(str, left)))
    else:
        # not of a running turn: its note says whether the reply was sent, and goes when the turn is ended
        sql = "UPDATE runs SET process_json = NULL WHERE run_id = ? AND state <> ?"
        with store.writing() as connection:
            connection.executemany(sql, [(run_id, State.RUNNING) for run_id in noted])
    for run in running:
        _end(store, records, run, INTERRUPTED, run.process if left else None)
    for run_id, decision in lost:
        if (waits := runs.find(store, run_id)) is not None:
            _end(store, records, waits, decision, waits.process)


def settle_terminal_turns(store: Store, records: Records) -> None:
    """Settle the runs whose turn was run by a terminal that has died: it no longer holds the lock of the handle."""
    for run_id, handle in runs.at_terminals(store).items():
        with suppress(MachineError, UsageError), locked(records.data.lock(handle), handle):
            settle_terminal_turn(store, records, run_id)


def settle_terminal_turn(store: Store, records: Records, run_id: str) -> None:
    """End the processes left by a dead terminal's turn, and end its turn; the caller holds the handle's lock."""
    run = runs.find(store, run_id)
    if run is None or run_id not in runs.at_terminals(store):
        return
    if left := end_orphans(noted_processes(run.process)):
        # the note about them stays, so that the next server tries again
        log.error("could not stop these processes of a killed turngate resume: %s", ", ".join(map(str, left)))
    killed = failed(RunErrorCode.TERMINAL_INTERRUPTED, "turngate resume was killed during the turn")
    _end(store, records, run, killed, run.process if left else None)


class TerminalWatch:
    """Settles the turns of dead terminals, in a thread, since it waits for the end of their processes."""

    def __init__(self, store: Store, records: Records) -> None:
        self._store, self._records = store, records
        self._thread = threading.Thread()

    def look(self) -> None:
        """Look for them, unless the last look still goes on."""
        if not self._thread.is_alive() and runs.at_terminals(self._store):
            self._thread = threading.Thread(target=self._settle, name="turngate-terminals", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Wait until the last look has ended."""
        if self._thread.ident is not None:
            self._thread.join()

    def _settle(self) -> None:
        try:
            # in a data directory that was deleted and made anew, a lock that nobody holds proves nothing
            if self._records.data.database.exists():
                settle_terminal_turns(self._store, self._records)
        except Exception:
            log.exception("can't check the turns of terminals yet")


def _lost(run: Summary) -> Decision | None:
    """Return why a waiting run can't be answered any more; None if its session id is present and can be passed on."""
    if not run.is_resumable:
        return UNANSWERABLE
    if run.session is None or unsafe(run.session.handle_value):
        detail = "after the restart: no valid session id was stored"
        return failed(RunErrorCode.SESSION_RESUME_FAILED, detail)
    return None


def _end(store: Store, records: Records, run: Run, decision: Decision, left: ProcessNote | None) -> None:
    """End a run, and its turn if that had not ended; `left` is the note of a process that could not be ended.

    Its user may have canceled it since it was read.
    """
    if decision.error is not None:
        decision = replace(decision, error=with_session(run, decision.error))
    caveats: tuple[Reported, ...] = ()
    with suppress(ContractError):
        caveats = session_caveats(contract_for(run.engine, run.engine_version), failed=True, killed=True)
    with store.writing() as connection:
        current = runs.get(connection, run.run_id)
        if (current.state, current.turn_index) != (run.state, run.turn_index):
            return
        if current.cancel_requested:
            decision = Decision(Cause.CANCELED)
        transitions.end(connection, records, current, decision, TurnResult(process=left, reported=caveats))


def noted_processes(note: ProcessNote | None) -> list[Noted]:
    """Return the processes of a note: that of the turn, and those that could not be ended before it."""
    return [Noted(note.tag, note.pid, note.started_at), *noted_processes(note.kept)] if note else []
