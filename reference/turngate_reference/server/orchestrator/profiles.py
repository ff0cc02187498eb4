"""Chooses, before the first turn of an interactive run, how the run waits for its user.

Four layers decide whether an engine's sessions can be resumed, in this order; the first that says no is the reason:
its contract, its help pages, its present state (the executable and its session store), and test results.

Caches facts about executables that are slow to obtain, such as what their help pages lack.
"""

import os
import time
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from threading import Lock
from typing import Generic, TypeVar

from msgspec import Struct

from turngate import EngineContract, MachineError, Stop, UsageError
from turngate.contract.launch import HelpPage
from turngate.contract.session_ids import filled, slots
from turngate.contract.verdict import profile
from turngate.model import EngineInteractiveProfile, EngineResumeCapability, ProbeMethod
from turngate.process.executable import PrintedText, printed
from turngate.process.launch import refuse_in_critical
from turngate.process.supplied_files import guarded_environment
from turngate_reference.engine.attempt import InstalledEngine
from turngate_reference.server.orchestrator.verification import Status, Verifier, replaced

FAILURES_KEPT = 60.0
T = TypeVar("T")
STICKY = "sticky_process"


class Cache(Generic[T]):
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


class HelpSurvey(Struct, frozen=True):
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
        output, trouble = _printed(engine, page, env, stop)
        page_text = output.on(page.stream)
        names = page.missing(page_text)
        # a page that wasn't printed doesn't show whether the other names exist
        absent += () if trouble and not page_text else names
        needed = engine.contract.launch.resume_names(page)
        if lacking := [name for name in names if name in needed]:
            line = f"`{engine.contract.executable} {' '.join(page.argv)}`"
            misplaced = output.misplaced(page.stream, page.is_complete)
            reasons.append(f"{line}{trouble} does not list {', '.join(lacking)}{misplaced and f': {misplaced}'}")
        if trouble:
            holds = FAILURES_KEPT
    return HelpSurvey(tuple(absent), "; ".join(reasons)), holds


def _printed(engine: InstalledEngine, page: HelpPage, env: Mapping[str, str], stop: Stop) -> tuple[PrintedText, str]:
    """Return what a help page printed, and what went wrong as words that continue with "and", or are empty."""
    try:
        if engine.cwd:
            env = guarded_environment(env, engine.contract.guards)
        output = printed(engine.executable, page, env, stop, engine.cwd)
    except (MachineError, UsageError, OSError) as failed:
        return PrintedText(None, "", ""), f" was not run ({failed}) and"
    code = output.exit_code
    return output, "" if code == 0 else " did not end and" if code is None else f" exited with {code} and"


class Profiles:
    """Knows which engines of this machine can resume; `environment` returns what an engine's next run would get.

    Each executable is examined once; `stop` ends that, `clock` is in seconds.
    """

    def __init__(
        self,
        verifier: Verifier,
        environment: Callable[[EngineContract], Mapping[str, str]],
        stop: Stop,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.verifier, self._environment, self._stop = verifier, environment, stop
        self._surveys: Cache[HelpSurvey] = Cache(clock)

    def choose(
        self, engine: InstalledEngine, environment: Mapping[str, str], *, session_timeout_sec: int, asked: str | None
    ) -> tuple[EngineInteractiveProfile, EngineResumeCapability]:
        """Return a profile and the reason for it; `asked` is the one that the run asks for. Never raises.

        `environment` is what the engine will run in.
        """
        unsupported = engine.contract.resume_probe.unsupported
        able = self._decide(engine, environment, "" if unsupported else self._survey(engine).no_resume)
        kind, reason = profile(able).kind, able.detail
        if asked == STICKY:
            kind, reason = "sticky_process", "the run requested it"
        elif asked is not None and asked != kind:
            reason = f"the run requested {asked}, which is not available: {able.detail}"
        return EngineInteractiveProfile(kind, reason, session_timeout_sec), able

    def learn(self, engine: InstalledEngine) -> None:
        """Do the slow checks: read the help pages, and verify that a resume works."""
        self._survey(engine)
        self.verifier.verify(engine)

    def known(self, engine: InstalledEngine) -> EngineResumeCapability | None:
        """Return what is known about an engine without running anything; None if that is not enough to decide."""
        surveyed = self._surveys.peek(engine.key)
        if surveyed is None and engine.contract.resume_probe.unsupported is None:
            return None
        able = self._decide(engine, self._environment(engine.contract), surveyed.no_resume if surveyed else "")
        return None if able.supported and self.verifier.is_pending(engine) else able

    def help_missing(self, engine: InstalledEngine) -> tuple[str, ...]:
        """Return the names that the help pages lack, as far as the pages have been read."""
        surveyed = self._surveys.peek(engine.key)
        return surveyed.missing if surveyed else ()

    def _survey(self, engine: InstalledEngine) -> HelpSurvey:
        """Return the survey of an engine's help pages, which the first call runs."""
        return self._surveys.get(engine.key, lambda: survey(engine, self._environment(engine.contract), self._stop))

    def _decide(
        self, engine: InstalledEngine, environment: Mapping[str, str], no_resume: str
    ) -> EngineResumeCapability:
        """Return the answer of the first layer that decides."""
        probe, directory = engine.contract.resume_probe, _directory(engine, environment)
        on_wire = self.verifier.status(engine)
        dated = f"{on_wire.detail} ({on_wire.at:%Y-%m-%d})" if on_wire.at else on_wire.detail
        refutations: tuple[tuple[ProbeMethod, str, str | None], ...] = (
            ("command", "contract", probe.unsupported),
            ("command", "help", no_resume),
            ("filesystem", "executable", replaced(engine)),
            ("filesystem", "session store: sessions can't be stored", probe.directory and _unwritable(directory)),
            (
                "command",
                "verified on the wire: sessions are not resumed",
                dated if on_wire.status is Status.REFUTED else "",
            ),
        )
        for method, layer, why in refutations:
            if why:
                return EngineResumeCapability(supported=False, probe_method=method, detail=f"{layer}: {why}")
        if on_wire.status is Status.PROVEN:
            detail = f"verified on the wire: {dated}"
            return EngineResumeCapability(supported=True, probe_method="command", detail=detail)
        kept = f"session store: sessions can be stored in {directory}" if probe.directory else ""
        detail = (
            f"{kept or 'help: it lists everything that a resume needs'}; not verified on the wire: {on_wire.detail}"
        )
        return EngineResumeCapability(supported=True, probe_method="filesystem" if kept else "command", detail=detail)


def no_sticky_process(contract: EngineContract) -> str:
    """Return why no interactive run can have a sticky process, by the contract; empty if one can."""
    sticky = contract.sticky
    if sticky.transport == "none":
        return "the contract defines no transport for a sticky process"
    if sticky.interactive is None:
        return f"the contract doesn't define how it asks for permission over {sticky.transport}"
    return ""


def _directory(engine: InstalledEngine, environment: Mapping[str, str]) -> Path | None:
    """Return the directory that the contract requires to be writable; None if there is none or it is unknown."""
    store, directory = engine.contract.store, engine.contract.resume_probe.directory
    try:
        return Path(filled(directory, slots(store.locations if store else {}, environment))) if directory else None
    except KeyError:
        return None


def _unwritable(directory: Path | None) -> str:
    """Return why a directory can neither be written nor made; empty if it can."""
    if directory is None or not directory.is_absolute():
        return "its location is unknown" if directory is None else f"{directory} is not an absolute path"
    at = next(path for path in (directory, *directory.parents) if os.path.lexists(path))
    if not at.is_dir():
        return f"{at} is not a directory"
    return "" if os.access(at, os.W_OK | os.X_OK) else f"{at} can't be written"
