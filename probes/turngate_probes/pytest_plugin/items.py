"""The tests of `pytest --turngate`: one per clause; the first one probes all named releases."""

import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest

from turngate import NotFoundError, ProcessRequest, TurngateError
from turngate.contract import load
from turngate.contract.clauses import Level, Result
from turngate.contract.lint import override
from turngate.contract.verdict import FailOn
from turngate.files import overlay
from turngate.process.execution import Stdin, run
from turngate.sanitize import visible
from turngate_probes.clauses.checks import LEVELS
from turngate_probes.journal.journal import read
from turngate_probes.pytest_plugin import child
from turngate_probes.pytest_plugin.child import Request
from turngate_probes.releases.target import Target, parse_target
from turngate_probes.report.build import build
from turngate_probes.report.evidence import evidence_text
from turngate_probes.report.judgement import probe_cases
from turngate_probes.report.reports import ReleaseReport
from turngate_probes.report.view import JudgedCase
from turngate_probes.report.wording import known

CONTRACTS = "TURNGATE_CONTRACTS"
LONGEST = 24 * 3600.0  # seconds for the probe of all targets


class ClauseFailed(Exception):  # noqa: N818 - a failure of the engine, not an error
    """A clause fails; says why, with the evidence."""


class Probed:
    """The probe of all targets, run once on first use, for the selected clauses."""

    def __init__(self, session: pytest.Session, targets: Sequence[Target], level: Level, fail_on: FailOn) -> None:
        self.targets, self.level, self.fail_on = targets, level, fail_on
        self._session = session
        self._releases: dict[Target, ReleaseReport] = {}

    def release(self, target: Target) -> ReleaseReport:
        """Return the result of a target."""
        if not self._releases:
            self._run()
        return self._releases[target]

    def _run(self) -> None:
        with TemporaryDirectory() as folder:
            paths = {target: f"{folder}/{number}.ndjson" for number, target in enumerate(self.targets)}
            journals = {str(target): path for target, path in paths.items()}
            contracts = overlay()
            request = Request(
                journals, self.level, self.fail_on, self._selected(), str(contracts) if contracts else None
            )
            argv = (sys.executable, "-P", "-m", child.__name__, msgspec.json.encode(request).decode())
            # its standard input closes when this process ends, even if it is killed
            done = run(ProcessRequest(argv, Path.cwd(), dict(os.environ), Stdin.OPEN, LONGEST))
            if done.exit_code != 0:
                stderr = visible(done.stderr.decode("utf-8", "replace"), "\n")
                raise RuntimeError(f"the probe crashed: {stderr}")
            self._releases = {target: build(read(Path(path))).releases[0] for target, path in paths.items()}

    def _selected(self) -> tuple[str, ...]:
        names = {item.name for item in self._session.items if isinstance(item, ClauseTest)}
        at_level = [clause.id for clause in load.catalogue().at_level(*LEVELS[self.level])]
        return () if names >= set(at_level) else tuple(name for name in at_level if name in names)


class ReleaseCollector(pytest.Collector):
    """The tests of one target."""

    def __init__(self, *, target: Target, probed: Probed, **rest: Any) -> None:
        super().__init__(**rest)
        self.target, self.probed = target, probed

    def collect(self) -> Iterator["ClauseTest"]:
        """Return a test for each clause of the level."""
        for clause in load.catalogue().at_level(*LEVELS[self.probed.level]):
            yield ClauseTest.from_parent(self, name=clause.id)


class ClauseTest(pytest.Item):
    """One clause of one release."""

    parent: ReleaseCollector

    def __init__(self, **rest: Any) -> None:
        super().__init__(**rest)
        self.add_marker("turngate")

    def runtest(self) -> None:
        """Fail with the evidence, skip with the reason, warn, or pass."""
        probed = self.parent.probed
        release = probed.release(self.parent.target)
        if release.failed:
            raise ClauseFailed(f"{self.parent.name} could not be tested: {visible(release.failed.what)}")
        case = next(case for case in probe_cases(release, probed.fail_on) if case.name == self.name)
        if case.kind == "crashed":
            raise RuntimeError(case.text)
        if case.judgement in ("failed", "open"):
            raise ClauseFailed(_failure(case))
        if case.judgement == "skipped":
            pytest.skip(visible(case.text))
        if case.judgement == "warned":
            warning = pytest.PytestWarning(visible(f"{self.parent.name} {self.name} {case.note}"))
            warnings.warn(warning, stacklevel=1)
        if case.judgement == "noted":
            self.add_report_section("call", "turngate", visible(case.text))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show the result, not the plugin's code."""
        return str(excinfo.value) if isinstance(excinfo.value, ClauseFailed) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Name the test by its release and clause (pytest would take dots in the id for a module path)."""
        return self.path, None, f"{self.parent.name} {self.name}"


def tests(session: pytest.Session, targets: Sequence[str], level: Level, fail_on: str) -> list[pytest.Item]:
    """Create the tests of all targets, with the same contracts as the commands."""
    unusable = list[str]()
    try:
        if own := os.environ.get(CONTRACTS):
            if not Path(own).is_dir():
                hint = "pass the folder that contains engines/*.yaml"
                raise NotFoundError(f"{CONTRACTS}: no such folder: {own}", hint)
            unusable = [visible(message, "\n\t") for message in override(Path(own))]
        parsed = list(dict.fromkeys(map(parse_target, targets)))
    except TurngateError as wrong:
        raise pytest.UsageError("\n".join([f"--turngate: {wrong}", *unusable])) from wrong
    for message in unusable:
        warnings.warn(pytest.PytestWarning(message), stacklevel=1)
    probed = Probed(session, parsed, level, FailOn(fail_on))
    items: list[pytest.Item] = []
    for target in parsed:
        name = str(target)
        parent = ReleaseCollector.from_parent(session, name=name, nodeid=name, target=target, probed=probed)
        report = parent.ihook.pytest_make_collect_report(collector=parent)
        parent.ihook.pytest_collectreport(report=report)  # pytest counts the tests that it is told of
        items += report.result
    return items


def _failure(case: JudgedCase) -> str:
    entry = known(case.name)
    is_failure = case.clause is not None and case.clause.result is Result.FAIL
    lines = [visible(f"fail: {case.text}" if is_failure else case.text)]
    if entry:
        lines = [entry.sentence, *lines, f"why: {entry.why}"]
    return "\n".join([*lines, evidence_text(case.clause.evidence if case.clause else ())]).rstrip()
