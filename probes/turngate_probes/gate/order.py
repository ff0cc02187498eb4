"""What was ordered on the command line: reads it, has it answered, publishes the report."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from turngate import load
from turngate.errors import EnvironmentFailed
from turngate.runtime.cache import default_cache
from turngate_probes import report as reporting
from turngate_probes.gate.baseline import Entry, read
from turngate_probes.gate.crossing import CLAUSES
from turngate_probes.gate.gather import Gathering, Question, default_old
from turngate_probes.gate.markdown import markdown
from turngate_probes.gate.report import gate_report
from turngate_probes.gate.text import print_gate
from turngate_probes.interrupt import CaseStoppedError, Interrupt
from turngate_probes.peaks import jobs_for
from turngate_probes.probe import Settings, sandboxes_path
from turngate_probes.report import github
from turngate_probes.report.build import INTERRUPTED_CODE, Report
from turngate_probes.report.files import write_reports
from turngate_probes.report.output import checked, json_text, write_atomically, write_json
from turngate_probes.room import parse_size
from turngate_probes.selection import known_clauses
from turngate_probes.targets import Target, parse_target

SCHEMA = "gate-report"
OWN_FORMATS = {".json": json_text, ".md": markdown}


@dataclass(frozen=True, slots=True)
class Order:
    """A question, the baseline, and where the report goes."""

    question: Question
    entries: tuple[Entry, ...]
    baseline: str | None
    json_to: str | None
    reports: tuple[Path, ...]

    @classmethod
    def of(  # noqa: PLR0913 - as the command has options
        cls, new: str, old: str | None, *, baseline: Path | None, results: Path | None, cache_limit: str,
        jobs: int | None, clauses: Sequence[str], json_to: str | None, reports: Sequence[Path],
    ) -> "Order":  # fmt: skip
        """Read what was asked for; EnvironmentFailed says what is wrong with it."""
        older, newer = _targets(old, new)
        crossed = tuple(each for each in clauses if each in CLAUSES)
        asked = known_clauses([each for each in clauses if each not in CLAUSES], "hermetic")
        try:
            limit = parse_size(cache_limit)
        except ValueError as wrong:
            raise EnvironmentFailed(str(wrong), "see --cache-limit") from wrong
        settings = Settings(
            "hermetic", jobs or jobs_for(os.cpu_count() or 1), sandboxes_path(None), keep=False, strict=False,
            clauses=asked or (("version.readable",) if crossed else ()),
        )  # fmt: skip
        folder = (results or default_cache() / "matrix").absolute()
        question = Question(older, newer, settings, crossed if clauses else CLAUSES, folder, limit)
        named = str(baseline) if baseline else None
        return cls(question, read(baseline) if baseline else (), named, json_to, tuple(reports))


def _targets(old: str | None, new: str) -> tuple[Target, Target]:
    newer = parse_target(new)
    older = parse_target(old) if old else default_old(newer.engine)
    for target in (newer, older):
        if not target.version and not target.path:
            raise EnvironmentFailed(f"{str(target)!r} names no release", f"write {target}@VERSION or {target}=PATH")
    if older.engine != newer.engine:
        raise EnvironmentFailed(f"{older} is another engine than {newer}", "compare two releases of one engine")
    return older, newer


def run(order: Order, console: Console, interrupt: Interrupt) -> tuple[int, Report | None]:
    """Have the question answered and publish the report; gives the exit code, and the report if there is one."""
    started = time.monotonic()
    load.prepare()
    with reporting.live(console) as listener:
        try:
            found = Gathering(order.question, listener, interrupt).run()
        except (CaseStoppedError, EnvironmentFailed):
            if interrupt.is_set():
                return INTERRUPTED_CODE, None
            raise
    seconds, stopped = time.monotonic() - started, interrupt.is_set()
    report = gate_report(found, order.entries, seconds=seconds, interrupted=stopped, baseline=order.baseline)
    publish(report, order, console)
    return int(report["exit_code"]), report


def publish(report: Report, order: Order, console: Console) -> None:
    """Write the report wherever it was asked for, and print it; ValueError if it breaks its schema."""
    checked(report, SCHEMA)
    checked(report["probe"])
    if order.json_to is not None:
        write_json(report, order.json_to, SCHEMA)
    for path in order.reports:
        own = OWN_FORMATS.get(path.suffix.lower())
        if own is None:
            write_reports(report["probe"], [path])
            continue
        try:
            write_atomically(path.resolve(), own(report))
        except OSError as error:
            raise EnvironmentFailed(f"the report {path} can't be written: {error.strerror}") from error
    with github.commands_off(console):
        print_gate(console, report)
    github.announce(report["probe"], console, lambda _: markdown(report))
