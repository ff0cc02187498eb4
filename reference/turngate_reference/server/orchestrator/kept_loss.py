"""What the loss of a kept process, or the end of its wait, means for its run.

A process that is lost in a turn is the turn's business (`KeptTurn`), which asks `loss_in_turn`. One that is lost
between two turns is the business of the thread of `KeptProcesses`, which asks `KeptLosses`. A reply may come at the
same moment: the compare-and-set on the state of the run decides, so one of the two finds that it is too late.
"""

import logging
from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from turngate_reference.server.orchestrator import transitions
from turngate_reference.server.orchestrator.decide import INTERRUPTED, Decision, failed
from turngate_reference.server.orchestrator.run_files import Records
from turngate_reference.server.orchestrator.run_inbox import Action
from turngate_reference.server.store import runs
from turngate_reference.server.store.database import Store
from turngate_reference.server.transports.events import Lost
from turngate_reference.states import RunErrorCode, State

log = logging.getLogger(__name__)

SERVER_STOPPED = "the server stopped, and with it the waiting process"


Later: TypeAlias = Callable[[Action], None]


def at_once(action: Action) -> None:
    """Perform an action that may be put off."""
    action()


def loss_in_turn(lost: Lost | None, *, has_asked: bool) -> Decision:
    """Decide for a turn whose process is lost after it got the prompt; `lost` None: the server has ended it.

    `has_asked` says whether the user was asked before, in this turn or an earlier one.
    """
    if lost is None:
        return INTERRUPTED
    if lost.ours:
        return failed(RunErrorCode.ORCHESTRATOR_ERROR, lost.detail)
    code = RunErrorCode.INTERACTION_PROCESS_LOST if has_asked else RunErrorCode.ENGINE_FAILED
    return failed(code, lost.detail)


class KeptLosses(Struct, frozen=True):
    """Settles in the store what happens to the process of a run; sqlite3.Error if that must be tried again."""

    store: Store
    records: Records

    def is_over(self, run_id: str, seconds: int, later: Later) -> bool:
        """End the wait of a process after its time; whether the process must end, since no reply has come in time.

        `later` performs an action when other waits that end now have ended.
        """
        late = failed(RunErrorCode.INTERACTION_WAIT_TIMEOUT, f"no reply came within {seconds} seconds")
        return self.fail_waiting(run_id, late, later=later) is State.WAITING_USER

    def gone(self, run_id: str, lost: Lost | None, exit_code: int | None, later: Later = at_once) -> bool:
        """Write that a process is gone that no turn uses; False if a reply has begun the turn that will find out."""
        detail = lost.detail if lost else SERVER_STOPPED
        before = self.fail_waiting(run_id, failed(RunErrorCode.INTERACTION_PROCESS_LOST, detail), later=later)
        if before is State.RUNNING:
            return False
        with self.store.writing() as connection:
            transitions.end_process(connection, run_id, exit_code)
        return True

    def fail_waiting(
        self,
        run_id: str,
        decision: Decision,
        seconds: float | None = None,
        later: Later = at_once,
    ) -> State:
        """Fail a run if it waits, and return the state that it was in.

        If its turn has not ended, since it asks for permission, the turn ends too, after this many seconds. `later`
        performs the action that writes the record.
        """
        with self.store.writing() as connection:
            run = runs.get(connection, run_id)
            if run.state is State.WAITING_USER:
                transitions.end_run(connection, run, decision, seconds)
        if run.state is State.WAITING_USER:
            later(lambda: self.records.keep(run, decision.state, run.session))
        return run.state
