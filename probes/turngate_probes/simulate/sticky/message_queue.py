"""The messages of the client of a simulated process, which also arrive while the model is asked."""

import json
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Semaphore, Thread
from typing import Any, BinaryIO, Generic, TypeAlias, TypeVar

Message: TypeAlias = dict[str, Any]
Result = TypeVar("Result")
HEED = 0.5  # seconds until a signal that comes just before a wait has its effect


class _Work(Generic[Result]):
    """A function that runs in a thread, and what came of it."""

    def __init__(self, function: Callable[[], Result]) -> None:
        self._function = function
        self.result: Result | None = None
        self.error: BaseException | None = None

    def run(self) -> None:
        """Call the function."""
        try:
            self.result = self._function()
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            self.error = error


class MessageQueue:
    """Reads JSON objects, one per line; `complain` is called for any other line.

    A thread reads a line only when one is wanted.
    """

    def __init__(self, stdin: BinaryIO, complain: Callable[[], None]) -> None:
        self._stdin, self._complain = stdin, complain
        self._queue: SimpleQueue[_Work[Any]] = SimpleQueue()
        self._wanted = Semaphore(0)
        self._awaited: _Work[bytes] | None = None
        self._postponed: deque[Message] = deque()
        self._ended = False
        Thread(target=self._read, daemon=True).start()

    def take(self, *, new: bool = False) -> Message | None:
        """Return the next message, a postponed one first unless it must be `new`; None at the end of the input."""
        if self._postponed and not new:
            return self._postponed.popleft()
        while not self._ended:
            self._want()
            message = self._message(self._next())
            if message is not None:
                return message
        return None

    def postpone(self, message: Message) -> None:
        """Keep a message for later."""
        self._postponed.append(message)

    def during(self, function: Callable[[], Result], stops: Callable[[Message], bool]) -> Result | None:
        """Run a function in a thread and return its result; None if a message stopped it.

        Messages that stop nothing are postponed. The function goes on in the background if it is stopped.
        """
        work = _Work(function)
        Thread(target=self._finish, args=(work,), daemon=True).start()
        while True:
            self._want()
            event = self._next()
            if event is work:
                if work.error:
                    raise work.error
                return work.result
            message = self._message(event)
            if message is None:
                continue
            if stops(message):
                return None
            self.postpone(message)

    def _next(self) -> _Work[Any]:
        """Wait for what comes next. A signal that comes just before a wait without end would wake nobody."""
        while True:
            with suppress(Empty):
                return self._queue.get(timeout=HEED)

    def _finish(self, work: _Work[Any]) -> None:
        work.run()
        self._queue.put(work)

    def _read(self) -> None:
        while True:
            self._wanted.acquire()
            awaited = self._awaited
            if awaited is not None:
                self._finish(awaited)

    def _want(self) -> None:
        """Let the thread read a line, unless it does so already or the input has ended."""
        if self._awaited is None and not self._ended:
            self._awaited = _Work(self._stdin.readline)
            self._wanted.release()

    def _message(self, event: _Work[Any]) -> Message | None:
        """Return the message in a line; None for anything else, such as the result of stopped work."""
        if event is not self._awaited:
            return None
        self._awaited = None
        if event.error:
            raise event.error
        if not event.result:
            self._ended = True
            return None
        try:
            message = json.loads(event.result)
        except ValueError:
            message = None
        if isinstance(message, dict):
            return message
        self._complain()
        return None
