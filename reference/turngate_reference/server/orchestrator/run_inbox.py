"""One thread that performs the actions of many runs, in order for each run, even while the store is locked."""

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
    """Performs actions one after the other, and one at each run's deadline; `clock` is in seconds.

    If the store is unavailable, an action is retried later, before any newer action of its run. Any other
    exception goes to `fail` with the run's id, as an action of that run.
    """

    def __init__(self, clock: Callable[[], float], fail: Callable[[str, Exception], None]) -> None:
        self._fail = fail
        self._queue: queue.SimpleQueue[tuple[str, Action] | None] = queue.SimpleQueue()
        self._due = sched.scheduler(clock)
        self._behind: dict[str, deque[Action]] = {}
        self._deadlines: dict[str, sched.Event] = {}
        self._thread = threading.Thread(target=self._loop, name="turngate-inbox", daemon=True)
        self._thread.start()

    def put(self, run_id: str, action: Action) -> None:
        """Queue an action for a run; callable from any thread."""
        self._queue.put((run_id, action))

    def set_deadline(self, run_id: str, seconds: float, too_late: Action) -> None:
        """Replace the deadline of a run; actions queued before it are performed before `too_late`."""

        def is_due() -> None:
            self.put(run_id, lambda: too_late() if self._deadlines.get(run_id) is deadline else None)

        self.drop_deadline(run_id)
        deadline = self._deadlines[run_id] = self._due.enter(seconds, 0, is_due)

    def drop_deadline(self, run_id: str) -> None:
        """Remove the deadline of a run."""
        if (deadline := self._deadlines.pop(run_id, None)) is not None:
            with suppress(ValueError):  # it is over
                self._due.cancel(deadline)

    def close(self) -> None:
        """Perform the queued actions, and return."""
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
        """Perform one action; False if the store is unavailable."""
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
