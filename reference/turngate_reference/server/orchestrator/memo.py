"""Remembers what is slow to find out, and finds each thing out but once, however many ask."""

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class _Entry(Generic[T]):
    lock: Lock = field(default_factory=Lock)
    found: list[T] = field(default_factory=list)
    until: float = float("inf")


class Memo(Generic[T]):
    """Values by key, each found out by the first who asks while all others wait; `clock` is in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, Lock()
        self._entries: dict[Hashable, _Entry[T]] = {}

    def get(self, key: Hashable, find: Callable[[], tuple[T, float]]) -> T:
        """The value of a key; `find` gives it and for how many seconds to keep it. What it raises is not kept."""
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
        with entry.lock:
            if not entry.found or self._clock() >= entry.until:
                value, seconds = find()
                entry.found, entry.until = [value], self._clock() + seconds
            return entry.found[0]

    def peek(self, key: Hashable) -> T | None:
        """Return the value that was last found, be it old, without waiting for anybody."""
        entry = self._entries.get(key)
        return next(iter(entry.found), None) if entry else None
