"""What is to be done when, for many runs at once."""

import heapq
import itertools
from collections.abc import Callable, Iterator

MAX_VOID = 64


class Deadlines:
    """Keeps what is to be done later, by a clock that gives seconds; for one thread alone.

    Most deadlines are void long before they are due: these are neither waited for nor, beyond `MAX_VOID` of them or
    as many as hold, kept.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._due: list[tuple[float, int, Callable[[], None], Callable[[], bool]]] = []
        self._number = itertools.count()
        self._room = MAX_VOID

    def __len__(self) -> int:
        """Count what is kept, void or not."""
        return len(self._due)

    def after(self, seconds: float, what: Callable[[], None], is_void: Callable[[], bool] = lambda: False) -> None:
        """Have something done, unless it is void by then."""
        if len(self._due) >= self._room:
            self._due = [each for each in self._due if not each[3]()]
            heapq.heapify(self._due)
            self._room = max(MAX_VOID, 2 * len(self._due))
        heapq.heappush(self._due, (self._clock() + seconds, next(self._number), what, is_void))

    def ripe(self) -> Iterator[Callable[[], None]]:
        """Return one after the other what is due, until nothing more is."""
        while self._due and (self._due[0][3]() or self._due[0][0] <= self._clock()):
            _, _, what, is_void = heapq.heappop(self._due)
            if not is_void():
                yield what

    def left(self) -> float | None:
        """Return the seconds until something is due; None: nothing will be."""
        return max(0.0, self._due[0][0] - self._clock()) if self._due else None
