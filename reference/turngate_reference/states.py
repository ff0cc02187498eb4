"""How a run moves: its states, what causes each transition, and the error codes of failed runs.

Theory of operation
===================

A run is a row in the store, and its column `state` alone says where the run stands. The handle record on disk only
repeats it. Nothing moves a run but `store.runs.transition`, which takes the state in which its caller saw the run and a
cause of the table below. It compares and sets: if the run is no longer in that state, nothing changes, and the caller
learns so. Of two competing causes, such as a reply and the deadline of the wait, the first one to be committed wins. A
cause that the table doesn't list for a state is an error of ours, and raises.

Each transition is one transaction with all that belongs to it. What may be lost at a crash is written outside of one.

- *Created.* The directory and the record come first, then the row. After a crash in between, the next server removes
  what has no row.
- *Claimed.* The row gets the number of the turn and a tag before any process starts. All processes of the turn carry
  the tag, so whatever runs after a crash can be found and ended.
- *While a turn runs*, the owner writes the agent's texts, the command and the process id when the store allows. A crash
  may lose the last of them.
- *A turn ends.* One transaction ends the turn, stores the question, or the result, or the error, and moves the run. The
  record is written just before it is committed, so whoever reads the new state finds the record. After a crash in
  between, the record is ahead, and recovery overwrites it.
- *Replied.* One transaction closes the question and moves the run; only then the caller gets its answer. A `resumable`
  run goes to the end of the queue. A run that has kept the only process that can continue goes on at once: the reply
  begins the next turn, or, if it gives or refuses a permission, continues the turn that asked. `turngate resume` claims
  the turn for itself, so that no server runs it too.
- *Returned.* A reply counts as sent from the moment at which the turn's process starts. A note of the run says that
  this moment has not come; it is removed in a transaction before it comes, and written again if no process could be
  started. If the turn ends with the note, no process has the reply. One transaction then undoes the claim, so that the
  run is `queued` again, and returns the reply: the run waits with the same question, which keeps the reply as unsent,
  and the idempotency key of the reply is free again. A restart of the server finds the note and does the same. Only a
  session that is gone fails the run, or a kept process that is gone before it gets the reply. The run keeps the reply
  as unsent, too.
- *Continued.* A run that has ended and whose session can be resumed goes to the end of the queue, with a message of its
  user. One transaction stores that as the answer to the question how to go on. The caller holds the lock of the handle,
  so that no terminal continues the session meanwhile.
- *Canceled.* A run without a running turn is canceled at once, and then the process that it may keep is ended.
  Otherwise only a mark is set, and the process is ended. The transaction that ends the turn, whatever its result, finds
  the mark and cancels the run, but not before the process is gone.

If the store can't be written, the command of a caller is refused. What a turn or a process has caused is tried again
until it is written, or until the server ends.

Recovery, when a server starts on what a dead one left: it ends every process that is noted, with all that carry its
tag. A run that is `queued` just starts. One that was `running` fails, or is canceled if it bears the mark: its prompt
may have reached the engine, and nothing is ever sent twice. If its note says that the reply was not sent, the reply is
returned instead. A run that waits keeps waiting if its session can be resumed in a new process, and fails otherwise.
The turn of a terminal is left alone as long as the terminal lives and holds the lock of the handle. When it doesn't, a
server or the next `turngate resume` ends its processes and fails the run, or returns the reply.
"""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import UNSET, Struct, UnsetType


class State(StrEnum):
    """The state of a run."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING_USER = "waiting_user"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def label(self) -> str:
        """What people read: the state, but for the one that concerns them."""
        return "waiting for you" if self is State.WAITING_USER else self.value


class Cause(StrEnum):
    """What moves a run to another state; each leads to one state, wherever the run was."""

    CLAIMED = "claimed"  # a slot is free: its next turn begins
    ASKED = "asked"  # the turn ended with a question
    PERMISSION_ASKED = "permission asked"  # the turn goes on when the user has decided
    FINISHED = "finished"
    REPLIED = "replied"  # the next turn resumes the session
    REPLIED_TO_PROCESS = "replied to its process"  # the next turn begins in it
    REPLIED_AT_TERMINAL = "replied at a terminal"  # which runs the next turn
    PERMISSION_REPLIED = "permission replied"
    PERMISSION_DROPPED = "permission dropped"  # the engine didn't wait for the decision
    TURN_FAILED = "turn failed"
    WAIT_EXPIRED = "wait expired"
    PROCESS_LOST = "process lost"  # which alone could have continued
    SESSION_LOST = "session lost"  # the engine can't resume it
    SERVER_STOPPED = "server stopped"  # in order, or by a crash
    TERMINAL_STOPPED = "terminal stopped"
    SERVER_ERROR = "server error"
    NOT_STARTED = "not started"  # no process of the turn was started, so its claim is undone
    REPLY_RETURNED = "reply returned"  # no process got it, and the question is open again
    CONTINUED = "continued"  # the next turn resumes the session of a run that has ended
    CANCELED = "canceled"


_FAILURES = dict.fromkeys((Cause.PROCESS_LOST, Cause.SESSION_LOST, Cause.SERVER_ERROR), State.FAILED)
TRANSITIONS: Mapping[State, Mapping[Cause, State]] = {
    State.QUEUED: {
        Cause.CLAIMED: State.RUNNING,
        Cause.REPLY_RETURNED: State.WAITING_USER,
        Cause.CANCELED: State.CANCELED,
    },
    State.RUNNING: {
        Cause.ASKED: State.WAITING_USER,
        Cause.PERMISSION_ASKED: State.WAITING_USER,
        Cause.FINISHED: State.SUCCEEDED,
        Cause.TURN_FAILED: State.FAILED,
        Cause.SERVER_STOPPED: State.FAILED,
        Cause.TERMINAL_STOPPED: State.FAILED,
        Cause.NOT_STARTED: State.QUEUED,
        **_FAILURES,
        Cause.CANCELED: State.CANCELED,
    },
    State.WAITING_USER: {
        Cause.REPLIED: State.QUEUED,
        Cause.REPLIED_TO_PROCESS: State.RUNNING,
        Cause.REPLIED_AT_TERMINAL: State.RUNNING,
        Cause.PERMISSION_REPLIED: State.RUNNING,
        Cause.PERMISSION_DROPPED: State.RUNNING,
        Cause.WAIT_EXPIRED: State.FAILED,
        **_FAILURES,
        Cause.CANCELED: State.CANCELED,
    },
    State.SUCCEEDED: {Cause.CONTINUED: State.QUEUED},
    State.FAILED: {Cause.CONTINUED: State.QUEUED},
    State.CANCELED: {Cause.CONTINUED: State.QUEUED},
}
TARGETS: Mapping[Cause, State] = {cause: to for causes in TRANSITIONS.values() for cause, to in causes.items()}
# nothing happens to such a run by itself
ENDED = frozenset((State.SUCCEEDED, State.FAILED, State.CANCELED))


class Delivery(StrEnum):
    """How the prompt of a turn reached the engine: in a process started for it, or in one that was already there."""

    NEW_PROCESS = "new_process"
    LIVING_PROCESS = "living_process"


class RunErrorCode(StrEnum):
    """Why a run failed; `openapi.yaml` says when each occurs."""

    TURN_TIMEOUT = "TURN_TIMEOUT"
    ENGINE_FAILED = "ENGINE_FAILED"
    SESSION_RESUME_FAILED = "SESSION_RESUME_FAILED"
    ENVELOPE_INVALID = "ENVELOPE_INVALID"
    FINAL_DATA_INVALID = "FINAL_DATA_INVALID"
    SCHEMA_TOO_COSTLY = "SCHEMA_TOO_COSTLY"
    ASK_USER_IN_AUTO = "ASK_USER_IN_AUTO"
    INTERACTION_WAIT_TIMEOUT = "INTERACTION_WAIT_TIMEOUT"
    INTERACTION_PROCESS_LOST = "INTERACTION_PROCESS_LOST"
    ORCHESTRATOR_RESTART_INTERRUPTED = "ORCHESTRATOR_RESTART_INTERRUPTED"
    TERMINAL_INTERRUPTED = "TERMINAL_INTERRUPTED"
    ENGINE_UNAVAILABLE = "ENGINE_UNAVAILABLE"
    WORKSPACE_UNAVAILABLE = "WORKSPACE_UNAVAILABLE"
    SESSION_STORE_UNAVAILABLE = "SESSION_STORE_UNAVAILABLE"
    ENGINE_UNSAFE = "ENGINE_UNSAFE"
    PROMPT_REFUSED = "PROMPT_REFUSED"
    OPTION_REFUSED = "OPTION_REFUSED"
    ORCHESTRATOR_ERROR = "ORCHESTRATOR_ERROR"

    @property
    def cause(self) -> Cause:
        """What fails a run with this code."""
        return _CAUSES.get(self, Cause.TURN_FAILED)


class RunError(Struct, frozen=True):
    """Why a run or a turn failed; `code` is a `RunErrorCode`.

    `session_intact` says whether the engine still has the session (None: nobody knows), and `can_continue` whether the
    run can go on in it. Both are unset if the run has no session that a new process resumes.
    """

    code: str
    detail: str
    session_intact: bool | UnsetType | None = UNSET
    can_continue: bool | UnsetType = UNSET


_CAUSES = {
    RunErrorCode.SESSION_RESUME_FAILED: Cause.SESSION_LOST,
    RunErrorCode.INTERACTION_WAIT_TIMEOUT: Cause.WAIT_EXPIRED,
    RunErrorCode.INTERACTION_PROCESS_LOST: Cause.PROCESS_LOST,
    RunErrorCode.ORCHESTRATOR_RESTART_INTERRUPTED: Cause.SERVER_STOPPED,
    RunErrorCode.TERMINAL_INTERRUPTED: Cause.TERMINAL_STOPPED,
    RunErrorCode.ORCHESTRATOR_ERROR: Cause.SERVER_ERROR,
}
