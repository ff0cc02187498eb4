"""Reads the releases to compare from the command line, and reports on the upgrade."""

import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from semver import Version

from turngate import UsageError, load_contract
from turngate.contract.verdict import FailOn
from turngate_probes.gate.collect import CROSSED, Collecting, ReleaseQuestion
from turngate_probes.gate.decision import expected_failures, gate_report
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.matrix.run import matrix_settings
from turngate_probes.releases.pins import pinned_version
from turngate_probes.releases.registry import LATEST, RegistryName
from turngate_probes.releases.selection import known_clauses
from turngate_probes.releases.target import Target, parse_target
from turngate_probes.report.progress import live
from turngate_probes.report.reports import GateReport


def question(  # noqa: PLR0913 - as it has options
    new: str,
    old: str | None,
    *,
    baseline: Path | None,
    results: Path | None,
    cache_limit: str,
    jobs: int | None,
    clauses: Sequence[str],
    registry: RegistryName | None = None,
    fail_on: FailOn = FailOn.BROKEN,
) -> ReleaseQuestion:
    """Read the arguments; UsageError or ContractError if they are wrong."""
    newer = _target(new)
    engine = newer.engine
    older = _target(old) if old else Target(engine, pinned_version(engine))
    if not older.version and not older.path:
        contract = load_contract(engine)
        published = contract.npm or contract.published.pypi
        written = f"{engine}@VERSION or {engine}=PATH" if published else f"{engine}=PATH"
        raise UsageError(f"{engine} is not pinned", f"pass the older release: --from {written}")
    if older.engine != engine:
        raise UsageError(f"{older} and {newer} are different engines", "compare two releases of one engine")
    if old and older == newer:
        raise UsageError(f"{older} would be compared with itself", "pass the release that you use now with --from")
    crossed = tuple(clause for clause in clauses if clause in CROSSED)
    asked = known_clauses([clause for clause in clauses if clause not in CROSSED], "hermetic")
    settings = matrix_settings(
        "hermetic",
        asked or (("version.readable",) if crossed else ()),
        results=results,
        cache_limit=cache_limit,
        jobs=jobs,
        registry=registry,
        fail_on=fail_on,
    )
    return ReleaseQuestion(
        older,
        newer,
        settings,
        crossed if clauses else CROSSED,
        expected_failures(baseline, engine) if baseline else (),
        str(baseline) if baseline else None,
    )


def answer(question: ReleaseQuestion, console: Console, interrupt: Interrupt) -> GateReport:
    """Collect the results and compare them."""
    started = time.monotonic()
    with live(console, interrupt) as listener:
        collected = Collecting(question, listener, interrupt).run()
    return gate_report(
        collected,
        question.expected,
        seconds=time.monotonic() - started,
        interrupted=interrupt.is_set(),
        baseline=question.baseline,
    )


def _target(text: str) -> Target:
    target = parse_target(text)
    if not target.version and not target.path:
        raise UsageError(f"{text!r} is not a release", f"write {text}@VERSION or {text}=PATH")
    if target.version and target.version != LATEST and not Version.is_valid(target.version):
        hint = f"write {target.engine}@MAJOR.MINOR.PATCH, {target.engine}@{LATEST} or {target.engine}=PATH"
        raise UsageError(f"{text!r} is not a release: {target.version!r} is not an exact version", hint)
    return target
