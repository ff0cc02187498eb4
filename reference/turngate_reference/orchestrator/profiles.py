"""Chooses, before the first turn of an interactive run, how the run waits for its user."""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from turngate.contract import HelpPage
from turngate.errors import EnvironmentFailed
from turngate.help_page import missing
from turngate.model import EngineInteractiveProfile, EngineResumeCapability
from turngate.runtime import Stop
from turngate.runtime.cache import default_cache
from turngate.runtime.identity import identity
from turngate.runtime.probe_results import last_result
from turngate.session_paths import filled, slots
from turngate.verdict import profile
from turngate_reference.installed import InstalledEngine, printed
from turngate_reference.orchestrator.once import Once

STICKY = "sticky_process"
FAILURES_KEPT = 60.0


class Profiles:
    """Knows which engines of this machine can resume; `clock` is in seconds.

    The last probe of that very executable decides; without one what the contract names is tried. What passed is
    remembered until the executable changes, what failed for a minute.
    """

    def __init__(self, stop: Stop, clock: Callable[[], float] = time.monotonic) -> None:
        self._stop = stop
        self._tried: Once[EngineResumeCapability] = Once(clock)
        self._latest: dict[tuple[str, str], EngineResumeCapability] = {}

    def choose(
        self, engine: InstalledEngine, environment: Mapping[str, str], *, session_timeout_sec: int, asked: str | None
    ) -> tuple[EngineInteractiveProfile, EngineResumeCapability]:
        """Choose a profile, and say what it rests on; `asked` is what the run would have. Never raises.

        `environment` is what the engine will run in.
        """
        able = self.capability(engine, environment)
        kind, reason = profile(able).kind, able.detail
        if asked == STICKY:
            kind, reason = STICKY, "the run asked for it"
        elif asked is not None and asked != kind:
            reason = f"the run asked for {asked}, which is not to be had: {able.detail}"
        return EngineInteractiveProfile(kind, reason, session_timeout_sec), able

    def known(self, engine: InstalledEngine) -> EngineResumeCapability | None:
        """Give what is known of an engine without trying anything."""
        try:
            return _reported(engine) or self._latest.get(_key(engine))
        except OSError:
            return None

    def capability(self, engine: InstalledEngine, environment: Mapping[str, str]) -> EngineResumeCapability:
        """Find out whether an engine can resume in this environment, unless that is known. Never raises."""
        try:
            if found := _reported(engine):
                return found
            key, directory = _key(engine), _directory(engine, environment)
            found = self._tried.get((key, directory), lambda: self._try(engine, environment, directory))
        except OSError as gone:
            return EngineResumeCapability(False, "command", f"{engine.executable} is gone: {gone.strerror}")  # noqa: FBT003
        self._latest[key] = found
        return found

    def _try(
        self, engine: InstalledEngine, environment: Mapping[str, str], directory: Path | None
    ) -> tuple[EngineResumeCapability, float]:
        """Try what the contract names; gives also how long that holds."""
        probe = engine.contract.resume_probe
        if probe.command and (why := self._refusal(engine, probe.command, environment)):
            return EngineResumeCapability(supported=False, probe_method="command", detail=why), FAILURES_KEPT
        if probe.directory and (why := _unwritable(directory)):
            detail = f"sessions can't be kept: {why}"
            return EngineResumeCapability(supported=False, probe_method="filesystem", detail=detail), FAILURES_KEPT
        held = [_line(engine, probe.command) + " says how to resume"] if probe.command else []
        held += [f"sessions can be kept in {directory}"] if probe.directory else []
        method = "command" if probe.command else "filesystem"
        return EngineResumeCapability(supported=True, probe_method=method, detail="; ".join(held)), float("inf")

    def _refusal(self, engine: InstalledEngine, command: HelpPage, environment: Mapping[str, str]) -> str:
        """Say why the command does not show that sessions can be resumed; empty if it does."""
        line = _line(engine, command)
        try:
            code, said = printed(engine.executable, command.argv, command.stream, environment, self._stop)
        except EnvironmentFailed as failed:
            return f"{line}: {failed.what}"
        if code != 0:
            return f"{line} exited with {code}" if code is not None else f"{line} did not end"
        absent = missing(command, said)
        return f"{line} does not name {', '.join(absent)}" if absent else ""


def _reported(engine: InstalledEngine) -> EngineResumeCapability | None:
    """Give what the last probe of this very executable says, if there was one."""
    found = last_result(engine.contract.engine, engine.executable, default_cache())
    # one program may stand for several releases, and be the same file for all of them
    if found is None or found.version != engine.version:
        return None
    detail = f"turngate probe of {found.at:%Y-%m-%d}: {found.capability.detail}"
    return EngineResumeCapability(found.capability.supported, found.capability.probe_method, detail)


def _key(engine: InstalledEngine) -> tuple[str, str]:
    return str(engine.executable), identity(engine.executable)


def _line(engine: InstalledEngine, command: HelpPage) -> str:
    return f"`{engine.contract.executable} {' '.join(command.argv)}`"


def _directory(engine: InstalledEngine, environment: Mapping[str, str]) -> Path | None:
    """Give the directory that the contract wants to be writable; None: there is none, or nothing says where."""
    store, directory = engine.contract.store, engine.contract.resume_probe.directory
    try:
        return Path(filled(directory, slots(store.locations if store else {}, environment))) if directory else None
    except KeyError:
        return None


def _unwritable(directory: Path | None) -> str:
    """Say why a directory can neither be written nor made; empty if it can."""
    if directory is None or not directory.is_absolute():
        return "nothing says where" if directory is None else f"{directory} is no absolute path"
    at = next(each for each in (directory, *directory.parents) if os.path.lexists(each))
    if not at.is_dir():
        return f"{at} is no directory"
    return "" if os.access(at, os.W_OK | os.X_OK) else f"{at} can't be written"
