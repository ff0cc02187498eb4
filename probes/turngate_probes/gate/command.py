"""What was ordered on the command line: reads it, has it answered, publishes the report."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from semver import Version

from turngate.contract import load
from turngate.errors import EnvironmentFailed
from turngate_probes import report as reporting
from turngate_probes.gate.baseline import Entry, read
from turngate_probes.gate.collect import Collecting, ReleaseQuestion, default_old
from turngate_probes.gate.cross_resume import CLAUSES
from turngate_probes.gate.presentation import GateReport
from turngate_probes.gate.publish import publish
from turngate_probes.gate.report import gate_report
from turngate_probes.harness.interrupt import CaseStoppedError, Interrupt
from turngate_probes.matrix.run import matrix_settings
from turngate_probes.releases.npm import LATEST
from turngate_probes.releases.selection import known_clauses
from turngate_probes.releases.source import Target, parse_target
from turngate_probes.report.build import INTERRUPTED_CODE


@dataclass(frozen=True, slots=True)
class GateCommand:
    """A question, the baseline, and where the report goes."""

    question: ReleaseQuestion
    entries: tuple[Entry, ...]
    baseline: str | None
    json_to: str | None
    reports: tuple[Path, ...]

    @classmethod
    def of(  # noqa: PLR0913 - as the command has options
        cls, new: str, old: str | None, *, baseline: Path | None, results: Path | None, cache_limit: str,
        jobs: int | None, clauses: Sequence[str], json_to: str | None, reports: Sequence[Path],
    ) -> "GateCommand":  # fmt: skip
        """Read what was asked for; EnvironmentFailed says what is wrong with it."""
        older, newer = _targets(old, new)
        crossed = tuple(each for each in clauses if each in CLAUSES)
        asked = known_clauses([each for each in clauses if each not in CLAUSES], "hermetic")
        asked = asked or (("version.readable",) if crossed else ())
        settings = matrix_settings("hermetic", asked, results=results, cache_limit=cache_limit, jobs=jobs)
        crossed = crossed if clauses else CLAUSES
        question = ReleaseQuestion(older, newer, settings.probe, crossed, settings.folder, settings.limit)
        named = str(baseline) if baseline else None
        return cls(question, read(baseline) if baseline else (), named, json_to, tuple(reports))


def _targets(old: str | None, new: str) -> tuple[Target, Target]:
    newer = _target(new)
    older = _target(old) if old else default_old(newer.engine)
    if older.engine != newer.engine:
        raise EnvironmentFailed(f"{older} is another engine than {newer}", "compare two releases of one engine")
    return older, newer


def _target(text: str) -> Target:
    target = parse_target(text)
    if not target.version and not target.path:
        raise EnvironmentFailed(f"{text!r} names no release", f"write {text}@VERSION or {text}=PATH")
    if target.version and target.version != LATEST and not Version.is_valid(target.version):
        hint = f"write {target.engine}@MAJOR.MINOR.PATCH, {target.engine}@{LATEST} or {target.engine}=PATH"
        raise EnvironmentFailed(f"{text!r} names no release: {target.version!r} is no whole version", hint)
    return target


def run(order: GateCommand, console: Console, interrupt: Interrupt) -> tuple[int, GateReport | None]:
    """Have the question answered and publish the report; gives the exit code, and the report if there is one."""
    started = time.monotonic()
    load.prepare()
    with reporting.live(console) as listener:
        try:
            found = Collecting(order.question, listener, interrupt).run()
        except (CaseStoppedError, EnvironmentFailed):
            if interrupt.is_set():
                return INTERRUPTED_CODE, None
            raise
    seconds, stopped = time.monotonic() - started, interrupt.is_set()
    report = gate_report(found, order.entries, seconds=seconds, interrupted=stopped, baseline=order.baseline)
    return publish(report, console, order.json_to, order.reports), report
