"""What a probe is asked to do, and where it keeps its sandboxes and its journal."""

import os
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from turngate.contract.clauses import Level
from turngate.contract.verdict import FailOn
from turngate.files import default_cache
from turngate_probes.clauses import CHECKS, with_prerequisites
from turngate_probes.clauses.checks import LEVELS
from turngate_probes.clauses.process import EVERYTHING
from turngate_probes.harness.cases import CASES, RESUME, Case
from turngate_probes.server_level.cases import RESUMED_CASES, SERVER_CASES

KEPT_JOURNALS = 20
# seconds; a probe that still runs has written to its journal since
_RECENT = 3600.0
# what `--resume` tests
RESUME_CLAUSES = ("handle.present", "handle.place", "resume.accepted", "resume.same-handle", "resume.context-carried")


class ProbeSettings(Struct, frozen=True):
    """The settings of a probe: its level, the number of parallel engines, and the folder of sandboxes.

    `clauses` are the only ones to test, with their prerequisites (empty: all). `more` are additional cases. `resume`
    tests only the clauses about resuming, with two turns that have those settings of the user that the contract names.
    `my_settings` gives these to all turns. `server` is the command of a server that is tested instead of the reference
    server, with the clauses about resumed turns.
    """

    level: Level
    jobs: int
    sandboxes: Path
    keep: bool = False
    fail_on: FailOn = FailOn.BROKEN
    clauses: tuple[str, ...] = ()
    more: tuple[Case, ...] = ()
    resume: bool = False
    my_settings: bool = False
    server: tuple[str, ...] = ()

    def asked(self) -> frozenset[str] | None:
        """Return the clauses that are judged, None for all."""
        clauses = RESUME_CLAUSES if self.resume else self.clauses
        if self.server and not clauses:
            clauses = resumed_clauses()
        return with_prerequisites(clauses) if clauses else None

    def cases(self) -> list[Case]:
        """List the cases to run."""
        if self.level == "live":
            return list(self.more)  # judged as in a hermetic probe, though with a real model
        if self.resume:
            return [RESUME]
        cases = [case for case in (*CASES, *SERVER_CASES, *self.more) if case.level in LEVELS[self.level]]
        asked = self.asked()
        if asked is None:
            return cases
        wanted = {name for clause_id in asked for name in CHECKS[clause_id].cases}
        if EVERYTHING in wanted:
            return cases
        asked_for = [case for case in cases if case.name in wanted]
        runs_turns = any(case.level != "static" for case in asked_for)
        return [case for case in cases if case in asked_for or (case.opens and runs_turns)]


def resumed_clauses() -> tuple[str, ...]:
    """List the clauses about resumed turns through a server, which need no more than its routes for runs."""
    played = {case.name for case in RESUMED_CASES}
    return tuple(clause for clause, check in CHECKS.items() if check.cases and played.issuperset(check.cases))


def default_jobs() -> int:
    """Return CPU count + 1, because engines often wait."""
    return (os.cpu_count() or 1) + 1


def sandboxes_path(keep: Path | None) -> Path:
    """Return the folder of sandboxes, outside the system's temporary directory, which some engines distrust."""
    return keep.absolute() if keep else default_cache() / "sandboxes"


def journal_path(keep: Path | None) -> Path:
    """Return the path of a new journal; in the cache, only the newest ones and those of running probes are kept."""
    if keep:
        return keep.absolute() / "probe.ndjson"
    for path in journals()[KEPT_JOURNALS:]:
        with suppress(FileNotFoundError):  # another probe removes them too
            if path.stat().st_mtime < time.time() - _RECENT:
                path.unlink()
    return _journals() / f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}-{os.getpid()}.ndjson"


def journals() -> list[Path]:
    """Return the journals in the cache, newest first."""
    return sorted(_journals().glob("*.ndjson"), reverse=True)


def _journals() -> Path:
    return default_cache() / "probes"
