"""Runs rounds in several processes, each of which runs one at a time and forks its servers itself."""

import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Self, cast

from tests.patience import PATIENCE
from tests.tools.chaos.plan import Round
from tests.tools.chaos.rounds import RoundResult, play


class Workers:
    """The processes; leaving the block ends them and everything they started."""

    def __init__(self, count: int, sabotage: str = "") -> None:
        self._count, self._sabotage = count, sabotage
        self._workers: dict[Connection, BaseProcess] = {}

    def __enter__(self) -> Self:
        context = get_context("spawn")
        for _ in range(self._count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs, self._sabotage))
            process.start()
            theirs.close()
            self._workers[ours] = process
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._workers.values():
            with suppress(OSError):
                process.terminate()
        for process in self._workers.values():
            process.join(PATIENCE)

    def play(self, draw: Callable[[], Round | None]) -> Iterator[RoundResult]:
        """Run the rounds that `draw` returns until it returns None; yield results as they arrive.

        RuntimeError if a process has died.
        """
        busy = {connection for connection in self._workers if _send(connection, draw())}
        while busy:
            for connection in cast(list[Connection], wait(list(busy))):
                try:
                    result = connection.recv()
                except EOFError:
                    raise RuntimeError("a process that plays rounds has ended; what it printed says why") from None
                yield result
                if not _send(connection, draw()):
                    busy.discard(connection)


def _send(connection: Connection, planned: Round | None) -> bool:
    if planned is not None:
        connection.send(planned)
    return planned is not None


def _work(connection: Connection, sabotage: str) -> None:
    """Run the rounds that come through the connection until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started us says when to end
    signal.signal(signal.SIGTERM, _end)
    with suppress(EOFError, KeyboardInterrupt):
        while True:
            connection.send(play(connection.recv(), sabotage))


def _end(*_: object) -> None:
    raise KeyboardInterrupt
