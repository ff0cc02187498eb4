"""What is to be done when, for many runs at once."""

from collections.abc import Callable, Hashable, Iterator


class Deadlines:
    """Holds one thing to do later for each key, by a clock that gives seconds; for one thread alone."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._due: dict[Hashable, tuple[float, Callable[[], None]]] = {}

    def set(self, key: Hashable, seconds: float, action: Callable[[], None]) -> None:
        """Have something done later, instead of what was to be done for the key."""
        self.drop(key)
        self._due[key] = (self._clock() + seconds, action)

    def drop(self, key: Hashable) -> None:
        """Have nothing done for a key."""
        self._due.pop(key, None)

    def ripe(self) -> Iterator[tuple[Hashable, Callable[[], None]]]:
        """Return one after the other what is due, with its key, until nothing more is."""
        while self.left() == 0:
            key = min(self._due, key=lambda key: self._due[key][0])
            yield key, self._due.pop(key)[1]

    def left(self) -> float | None:
        """Return the seconds until something is due; None: nothing will be."""
        return max(0.0, min(at for at, _ in self._due.values()) - self._clock()) if self._due else None
