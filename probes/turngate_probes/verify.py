"""Verifies that an executable's sessions can be resumed, with two turns against a stub model."""

import os
import threading
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from turngate import EngineContract
from turngate.contract.clauses import Result
from turngate.contract.home_and_workspace import SetupFile
from turngate.contract.verdict import ClauseResult, capability
from turngate.files import default_cache
from turngate.process.copied_values import CopiedValues, copied_values
from turngate.process.executable import identity
from turngate.process.probe_results import Verification, save_result
from turngate.sanitize import bounded
from turngate_probes.clauses import judge_all
from turngate_probes.clauses.checks import how_it_ended, went_well
from turngate_probes.harness.cases import Case
from turngate_probes.harness.driver import ASK, FINAL, EngineDriver, ask
from turngate_probes.harness.interrupt import CaseStoppedError, Interrupt, InterruptedCaseError, Obstacle
from turngate_probes.harness.observations import Observations
from turngate_probes.harness.runner import CaseRunner
from turngate_probes.harness.sandbox import merged
from turngate_probes.probe_settings import sandboxes_path
from turngate_probes.releases.source import Release

DEADLINE = 180.0
DECIDING = frozenset(
    {
        "handle.present",
        "handle.place",
        "resume.accepted",
        "resume.same-handle",
        "resume.context-carried",
    }
)
# the cases whose turns these clauses read; only one of them runs
_CASE = "main"
_READ = {_CASE, "bad-handles", "auto"}
_LONGEST = 1000


class VerificationOutcome(Struct, frozen=True):
    """Whether the executable resumes, and why; `unproven` means that the turns could not be completed."""

    status: Literal["proven", "refuted", "unproven"]
    detail: str


def verify(release: Release, interrupt: Interrupt) -> VerificationOutcome:
    """Run both turns of a release, and save the result for this executable. CaseStoppedError if interrupted.

    They run with those settings and variables of the user that the contract names.
    """
    executable = release.executable
    if executable is None:
        return VerificationOutcome("unproven", "no executable to run")
    before, copied = _identity(executable), copied_values(release.contract, os.environ)
    outcome = _observed(_with_values(release.contract, copied), executable, interrupt)
    if _identity(executable) != before or before is None:
        return VerificationOutcome("unproven", "the executable was replaced during the verification")
    if copied_values(release.contract, os.environ) != copied:
        return VerificationOutcome("unproven", "settings of the user changed during the verification")
    if outcome.status != "unproven":
        save_result(
            Verification(
                engine=release.engine,
                executable=os.path.realpath(executable),
                identity=before,
                version=release.version,
                contract_version=release.contract.contract_version,
                settings=copied.digest,
                status=outcome.status,
                detail=outcome.detail,
                at=datetime.now(UTC),
                turngate=metadata.version("turngate"),
            ),
            default_cache(),
        )
    return outcome


def _identity(executable: Path) -> str | None:
    with suppress(OSError):
        return identity(executable)
    return None


def _with_values(contract: EngineContract, copied: CopiedValues) -> EngineContract:
    """Return the contract with values of the user in its sandbox; what keeps a sandbox closed outranks them."""
    hermetic = contract.hermetic
    files = {file.path: file for file in hermetic.files}
    for file in copied.files:
        parts = [file.content, files[file.path].content] if file.path in files else [file.content]
        suffix = Path(file.path).suffix
        # of two texts, the later counts in JSON, while TOML must begin with what is in no table
        if suffix == ".toml":
            parts.reverse()
        content = merged(suffix, *parts) if parts[1:] else file.content
        files[file.path] = SetupFile(file.path, content)
    env = {**copied.env, **hermetic.env}
    return replace(contract, hermetic=replace(hermetic, files=tuple(files.values()), env=env))


def _observed(contract: EngineContract, executable: Path, interrupt: Interrupt) -> VerificationOutcome:
    """Run the turns, until the deadline at most."""
    observed = Observations(contract)
    late = threading.Event()

    def give_up() -> None:
        late.set()
        interrupt.set()

    timer = threading.Timer(DEADLINE, give_up)
    timer.start()
    try:
        runner = CaseRunner.of(sandboxes_path(None), 1, interrupt)
        runner.play(contract, executable, [Case(_CASE, _two_turns, 2, opens=True)], observed)
    finally:
        timer.cancel()
    if late.is_set():
        return VerificationOutcome("unproven", f"two turns did not end within {DEADLINE:.0f} s")
    if interrupt.is_set():
        raise InterruptedCaseError
    return _decision(observed)


def _two_turns(driver: EngineDriver) -> None:
    first = driver.start("first", ask(ASK))
    if not went_well(first):
        raise CaseStoppedError(f"the first turn failed: {how_it_ended(first)}", by_engine=True)
    if not first.sent():
        raise CaseStoppedError("the first turn sent no prompt to the stub model", by_engine=True)
    driver.resume("again", first.session, ask(FINAL, turn_index=2))


def _decision(observed: Observations) -> VerificationOutcome:
    first = observed.turns.get(f"{_CASE}/first")
    stopped = observed.stopped.get(_CASE, Obstacle(""))
    why_early = f"{stopped.text} ({stopped.hint})" if stopped.hint else stopped.text
    # an engine that doesn't work in a sandbox says nothing about resuming
    if first is None or not went_well(first) or not first.sent():
        return VerificationOutcome("unproven", bounded(why_early or "there was no first turn", _LONGEST))
    # other records beside that with the id are explained by the user's settings, and a turn is read in spite of them
    for name, turn in observed.turns.items():
        handle = replace(turn.reading.handle, displaced="")
        observed.turns[name] = replace(turn, reading=replace(turn.reading, handle=handle))
    results: dict[str, ClauseResult] = {}
    judge_all(observed, results, ("hermetic",), _READ, DECIDING)
    able = capability(results.values())
    failed = any(result.result is Result.FAIL for result in results.values())
    if able and (able.supported or failed):
        return VerificationOutcome("proven" if able.supported else "refuted", bounded(able.detail, _LONGEST))
    what = next((f"{r.id}: {r.detail}" for r in results.values() if r.result is Result.NOT_RUN), "no clause was judged")
    return VerificationOutcome("unproven", bounded(f"{what}: {why_early}".rstrip(": "), _LONGEST))
