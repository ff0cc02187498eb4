"""Verifies that installed engines can resume, by running `turngate probe --resume` for one engine at a time.

An engine that was probed before is not run again: the saved result of this executable counts. If the user has settings
that the contract names, only one with these settings does.
"""

import logging
import os
import sys
import threading
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

import msgspec

from turngate import Ended, MachineError, ProcessRequest, Stop, UsageError
from turngate.contract.clauses import Result
from turngate.decoding import decode
from turngate.files import default_cache, overlay_options
from turngate.model import EngineResumeCapability
from turngate.process.copied_values import copied_values
from turngate.process.executable import identity, is_simulated
from turngate.process.execution import Stdin, run
from turngate.process.probe_results import last_result
from turngate.sanitize import bounded, visible
from turngate_reference.engine.attempt import InstalledEngine

_log = logging.getLogger(__name__)


NICENESS = 10
DEADLINE = 180.0
_LONGEST_OUTPUT = 2 * 2**20
_LONGEST_REASON = 500
_LONGEST_DETAIL = 1000
_DECIDED, _OPEN = (0, 1), 2  # its exit codes
# it ends with its standard input: when this server ends, even if it is killed
_COMMAND = (
    sys.executable,
    "-P",
    "-c",
    f"""import os, signal
from turngate_probes.harness.interrupt import at_end_of_input
os.nice({NICENESS})
at_end_of_input(lambda: os.kill(os.getpid(), signal.SIGTERM))
from turngate.entry import main
main()""",
)
_SIMULATED = "the engine is simulated, which proves nothing about the real one"


class Verify(StrEnum):
    """When a server verifies its engines: while it serves, before it serves, or never."""

    BACKGROUND = "background"
    WAIT = "wait"
    OFF = "off"


class Status(StrEnum):
    """The result of verifying an engine's resume on the wire."""

    PENDING = "pending"
    PROVEN = "proven"
    REFUTED = "refuted"
    UNPROVEN = "unproven"


class Verified(msgspec.Struct, frozen=True):
    """The status, its reason, and since when it is known (None: nothing was run)."""

    status: Status
    detail: str
    at: datetime | None = None


class _Failed(msgspec.Struct, frozen=True):
    what: str
    hint: str


class _Clause(msgspec.Struct, frozen=True):
    id: str
    result: Result
    detail: str


class _Release(msgspec.Struct, frozen=True):
    capability: EngineResumeCapability | None
    failed: _Failed | None
    clauses: tuple[_Clause, ...]
    version: str | None = None

    def why_open(self) -> str:
        """Return what kept the turns from showing whether the engine resumes."""
        if self.failed:
            return f"{self.failed.what} ({self.failed.hint})" if self.failed.hint else self.failed.what
        wrong = [f"{clause.id}: {clause.detail}" for clause in self.clauses if clause.result is Result.FAIL]
        wrong += [f"{clause.id}: {clause.detail}" for clause in self.clauses if clause.result is Result.NOT_RUN]
        return wrong[0] if wrong else "no clause was judged"


class _Report(msgspec.Struct, frozen=True):
    """What is read of the report that `turngate probe --resume --json` prints."""

    releases: tuple[_Release]


_OFF = Verified(Status.UNPROVEN, "verification is turned off")
_PENDING = Verified(Status.PENDING, "its resume is not verified yet")


class Verifier:
    """Verifies engines from the directory `folder`; `stop` ends a verification with all of its processes."""

    def __init__(self, mode: Verify, folder: Path, stop: Stop) -> None:
        self.mode = mode
        self._folder, self._stop = folder, stop
        self._one = threading.Lock()
        self._here: dict[tuple[str, ...], Verified] = {}

    def status(self, engine: InstalledEngine | None) -> Verified:
        """Return what is known about this executable, without running anything; None if it was not examined yet."""
        return (engine and self._known(engine)) or (_OFF if self.mode is Verify.OFF else _PENDING)

    def is_pending(self, engine: InstalledEngine) -> bool:
        """Whether an engine's resume has yet to be verified."""
        return self.status(engine).status is Status.PENDING

    def verify(self, engine: InstalledEngine) -> None:
        """Verify an engine unless that was done already; return when the result is known or the server stops.

        A simulated engine isn't run: whoever records its calls would take the server's for those of its user.
        """
        if self.mode is Verify.OFF or self._known(engine):
            return
        if is_simulated(engine.executable):
            self._here[_key(engine)] = Verified(Status.UNPROVEN, _SIMULATED, datetime.now(UTC))
            return
        with self._one:
            # another server may have verified it meanwhile
            if self._stop.is_set() or self._known(engine):
                return
            key, verified = _key(engine), self._run(engine)
            if not replaced(engine) and not self._stop.is_set():
                self._here[key] = verified

    def _known(self, engine: InstalledEngine) -> Verified | None:
        known = _saved(engine) or self._here.get(_key(engine))
        if known and known.status is Status.PROVEN and is_simulated(engine.executable):
            return Verified(Status.UNPROVEN, _SIMULATED, known.at)
        return known

    def _run(self, engine: InstalledEngine) -> Verified:
        target = f"{engine.contract.engine}={engine.executable}"
        request = ProcessRequest(
            (*_COMMAND, *overlay_options(), "probe", "--resume", "--json", target),
            self._folder,
            dict(os.environ),
            Stdin.OPEN,
            DEADLINE,
            _LONGEST_OUTPUT,
        )
        at = datetime.now(UTC)
        try:
            outcome = run(request, stop=self._stop)
            (release,) = decode(outcome.stdout, _Report).releases
        except (MachineError, UsageError) as failed:
            return self._failed(target, str(failed), at)
        except ValueError:
            release = None
        if release is None or outcome.exit_code not in (*_DECIDED, _OPEN):
            how = (
                f"exit code {outcome.exit_code}" if outcome.ended is Ended.EXIT else f"timed out after {DEADLINE:.0f} s"
            )
            words = visible(bounded(outcome.stderr.decode("utf-8", "replace").strip(), _LONGEST_REASON), "\n")
            return self._failed(target, f"turngate probe: {how}" + (f": {words}" if words else ""), at)
        if engine.cwd and release.version != engine.version:
            why = f"a probe runs {release.version}, since {engine.executable} picks the release by the directory"
            return Verified(Status.UNPROVEN, why, at)
        able = release.capability if outcome.exit_code in _DECIDED else None
        detail = able.detail if able else release.why_open()
        return Verified(_status(able) if able else Status.UNPROVEN, bounded(detail, _LONGEST_DETAIL), at)

    def _failed(self, target: str, why: str, at: datetime) -> Verified:
        """Return, and log unless the server stops, that a verification could not be run, which proves nothing."""
        if not self._stop.is_set():
            _log.warning("%s was not verified: %s", visible(target), visible(why))
        return Verified(Status.UNPROVEN, why, at)


def _key(engine: InstalledEngine) -> tuple[str, ...]:
    """Return a key that also distinguishes the settings of the user that a verification runs with."""
    return (*engine.key, _settings(engine))


def _settings(engine: InstalledEngine) -> str:
    return copied_values(engine.contract, os.environ).digest


def _saved(engine: InstalledEngine) -> Verified | None:
    """Return the saved result of a probe of this executable, if there is one."""
    saved = last_result(engine.contract, engine.executable, _settings(engine), default_cache())
    # one program may serve several releases, with the same file for all of them
    if saved is None or saved.version != engine.version:
        return None
    return Verified(_status(saved.capability), saved.capability.detail, saved.at)


def _status(able: EngineResumeCapability) -> Status:
    return Status.PROVEN if able.supported else Status.REFUTED


def replaced(engine: InstalledEngine) -> str:
    """Return why the executable is not the file that was examined; empty if it is."""
    try:
        same = identity(engine.executable) == engine.identity
    except OSError as gone:
        return f"{engine.executable} is missing: {gone.strerror}"
    return "" if same else f"{engine.executable} was replaced since it was examined"
