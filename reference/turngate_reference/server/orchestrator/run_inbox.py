"""One thread that does what comes for many runs: in order for each of them, whatever the store can't take meanwhile."""

import logging
import queue
import sched
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
Action = Callable[[], None]


class RunInbox:
    """Does one action after the other, and one at the deadline of each run; `clock` is in seconds.

    An action that the store can't take now is done again later, before all that came for its run since. Any other
    exception goes to `fail` with the run's id, as an action of that run.
    """

    def __init__(self, clock: Callable[[], float], fail: Callable[[str, Exception], None]) -> None:
        self._fail = fail
        self._queue: queue.SimpleQueue[tuple[str, Action] | None] = queue.SimpleQueue()
        self._due = sched.scheduler(clock)
        self._behind: dict[str, deque[Action]] = {}
        self._deadlines: dict[str, sched.Event] = {}
        self._thread = threading.Thread(target=self._loop, name="turngate-sticky", daemon=True)
        self._thread.start()

    def put(self, run_id: str, action: Action) -> None:
        """Have something done for a run; from any thread."""
        self._queue.put((run_id, action))

    def set_deadline(self, run_id: str, seconds: float, too_late: Action) -> None:
        """Set the deadline of a run in place of the one that it has: what came before it is done before `too_late`."""

        def is_due() -> None:
            self.put(run_id, lambda: too_late() if self._deadlines.get(run_id) is deadline else None)

        self.drop_deadline(run_id)
        deadline = self._deadlines[run_id] = self._due.enter(seconds, 0, is_due)

    def drop_deadline(self, run_id: str) -> None:
        """Let a run have no deadline."""
        if (deadline := self._deadlines.pop(run_id, None)) is not None:
            with suppress(ValueError):  # it is over
                self._due.cancel(deadline)

    def close(self) -> None:
        """Do what has come by now, and return."""
        self._queue.put(None)
        self._thread.join()

    def _loop(self) -> None:
        while True:
            left = self._due.run(blocking=False)
            with suppress(queue.Empty):
                if (todo := self._queue.get(timeout=left)) is None:
                    return
                run_id, action = todo
                if run_id in self._behind:
                    self._behind[run_id].append(action)
                elif not self._is_done(run_id, action):
                    self._behind[run_id] = deque([action])
                    self._due.enter(RETRY_SECONDS, 0, self._catch_up, (run_id,))

    def _catch_up(self, run_id: str) -> None:
        behind = self._behind[run_id]
        while behind:
            if not self._is_done(run_id, behind[0]):
                self._due.enter(RETRY_SECONDS, 0, self._catch_up, (run_id,))
                return
            behind.popleft()
        del self._behind[run_id]

    def _is_done(self, run_id: str, action: Action) -> bool:
        """Do one thing; False: the store can't take it now."""
        try:
            action()
        except sqlite3.Error:
            log.exception("can't write to the store yet")
            return False
        except Exception as raised:
            log.exception("%s failed because of an error in turngate", run_id)
            error = raised
            self.put(run_id, lambda: self._fail(run_id, error))
        return True
