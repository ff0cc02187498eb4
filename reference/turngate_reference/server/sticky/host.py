"""The facade: every sticky process of a server, on one event loop in one thread."""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

from turngate_reference.server.sticky.events import Gone, StickyEvent, StickyRequest
from turngate_reference.server.sticky.session import StickySession

# threads that start and end processes; more threads would slow the others down
WORKERS = 2

Listener = Callable[[StickyEvent], None]
_logger = logging.getLogger(__name__)


class StickyHost:
    """Holds sticky processes by run id. Every method may be called from any thread; only `close` blocks.

    The events after a call go to the run's listener, on the thread of the loop: it must not block. The events
    of a run are in order: `Opened`, then for each prompt `Prompted`, texts, permission requests and `TurnEnded`; `Lost`
    at any time; `Gone` last, always. A call for a run without a process is ignored.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._executor = ThreadPoolExecutor(WORKERS, "turngate-sticky-worker")
        self._lock = threading.Lock()
        self._sessions: dict[str, StickySession] = {}
        self._runs: set[Future[None]] = set()
        self._closed = False
        self._thread = threading.Thread(target=self._loop.run_forever, name="turngate-sticky", daemon=True)
        self._thread.start()

    def open(self, run_id: str, request: StickyRequest, listener: Listener) -> None:
        """Start a process for a run; ValueError if the run has one already, or the host is closed."""
        session = StickySession(request, lambda event: self._tell(run_id, event, listener), self._executor)
        with self._lock:
            if self._closed or run_id in self._sessions:
                raise ValueError("the host is closed" if self._closed else f"{run_id} has a process already")
            self._sessions[run_id] = session
            run = asyncio.run_coroutine_threadsafe(session.run(), self._loop)
            self._runs.add(run)
        run.add_done_callback(self._runs.discard)

    def prompt(self, run_id: str, text: str, *, checked: bool = False) -> None:
        """Run the next turn in the same process; `checked`: only once the process has answered a request."""
        self._call(run_id, lambda session: session.prompt(text, checked=checked))

    def decide(self, run_id: str, request_id: str, option: str) -> None:
        """Answer the open permission request with one of its options; one that is no longer open is ignored."""
        self._call(run_id, lambda session: session.decide(request_id, option))

    def end(self, run_id: str) -> None:
        """End the whole tree of a run's process; `Gone` reports that it has ended."""
        self._call(run_id, StickySession.end)

    def close(self) -> None:
        """End every process, and return when all are gone; not to be called on the thread of the loop."""
        with self._lock:
            already, self._closed = self._closed, True
        if not already:
            for run_id in list(self._sessions):
                self.end(run_id)
            wait(list(self._runs))
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._executor.shutdown()
            self._loop.close()

    def _call(self, run_id: str, what: Callable[[StickySession], None]) -> None:
        with self._lock:
            if session := self._sessions.get(run_id):
                self._loop.call_soon_threadsafe(what, session)

    def _tell(self, run_id: str, event: StickyEvent, listener: Listener) -> None:
        if isinstance(event, Gone):
            with self._lock:
                del self._sessions[run_id]
        try:
            listener(event)
        except Exception:
            _logger.exception("the listener of %s failed", run_id)
