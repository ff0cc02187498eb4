"""Caches facts about executables that are slow to obtain, such as what their help pages lack."""

import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Generic, TypeVar

from turngate import EnvironmentFailed, Stop
from turngate.contract.launch import HelpPage
from turngate.process.executable import PrintedText, printed
from turngate.process.launch import refuse_in_critical
from turngate_reference.engine.lookup import InstalledEngine

FAILURES_KEPT = 60.0
T = TypeVar("T")


class Memo(Generic[T]):
    """Values by key, computed by the first caller while all others wait; `clock` is in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, Lock()
        self._locks: dict[Hashable, Lock] = {}
        self._values: dict[Hashable, tuple[T, float]] = {}

    def get(self, key: Hashable, find: Callable[[], tuple[T, float]]) -> T:
        """Return the value of a key; `find` returns it and for how many seconds it holds. Errors are not kept."""
        refuse_in_critical("what an engine prints is waited for")
        with self._lock:
            lock = self._locks.setdefault(key, Lock())
        with lock:
            if key not in self._values or self._clock() >= self._values[key][1]:
                value, seconds = find()
                self._values[key] = value, self._clock() + seconds
            return self._values[key][0]

    def peek(self, key: Hashable) -> T | None:
        """Return the last value, possibly stale, without blocking."""
        return self._values[key][0] if key in self._values else None


@dataclass(frozen=True, slots=True)
class HelpSurvey:
    """The names that the help pages lack, and why that rules out a resume (empty: it doesn't)."""

    missing: tuple[str, ...]
    no_resume: str


def survey(engine: InstalledEngine, env: Mapping[str, str], stop: Stop) -> tuple[HelpSurvey, float]:
    """Run every help page of an engine, which may take seconds; also returns for how many seconds the answer holds.

    It holds until the executable changes, or for a minute where a page could not be printed.
    """
    absent: list[str] = []
    reasons: list[str] = []
    holds = float("inf")
    for page in engine.contract.help.pages:
        said, trouble = _printed(engine, page, env, stop)
        page_text = said.on(page.stream)
        names = page.missing(page_text)
        # a page that wasn't printed doesn't show whether the other names exist
        absent += () if trouble and not page_text else names
        needed = engine.contract.launch.resume_names(page)
        if lacking := [name for name in names if name in needed]:
            line = f"`{engine.contract.executable} {' '.join(page.argv)}`"
            misplaced = said.misplaced(page.stream, page.is_complete)
            reasons.append(f"{line}{trouble} does not list {', '.join(lacking)}{misplaced and f': {misplaced}'}")
        if trouble:
            holds = FAILURES_KEPT
    return HelpSurvey(tuple(absent), "; ".join(reasons)), holds


def _printed(engine: InstalledEngine, page: HelpPage, env: Mapping[str, str], stop: Stop) -> tuple[PrintedText, str]:
    """Return what a help page printed, and what went wrong as words that continue with "and", or are empty."""
    try:
        said = printed(engine.executable, page, env, stop)
    except (EnvironmentFailed, OSError) as failed:
        return PrintedText(None, "", ""), f" was not run ({failed}) and"
    code = said.exit_code
    return said, "" if code == 0 else " did not end and" if code is None else f" exited with {code} and"
