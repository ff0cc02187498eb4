"""A probe leaves its verdict for the reference server: a finished one, of everything, on an executable."""

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.probes import engines
from turngate.contract import load
from turngate.contract.clauses import Level, Result
from turngate.contract.verdict import ClauseResult, Verdict
from turngate.files import default_cache
from turngate.process.probe_results import ProbeResult, last_result
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.harness.runner import CaseRunner
from turngate_probes.journal.journal import Journal
from turngate_probes.probe import Probe, ProbeSettings, ReleaseProbe
from turngate_probes.releases.source import parse_target

Play = Callable[..., None]


@pytest.fixture(name="executable")
def _executable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The fake engine, and an empty cache."""
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path / "cache"))
    return engines.install(tmp_path / "bin")


def judging(**other: Result) -> Play:
    """Play nothing, and have every clause pass but these (`_` and `__` stand for dash and dot)."""
    told = {name.replace("__", ".").replace("_", "-"): result for name, result in other.items()}

    def play(_stage: CaseRunner, _contract: Any, _executable: Path, _cases: Any, watcher: ReleaseProbe) -> None:
        for clause in load.catalogue().at_level("static", "hermetic"):
            result = told.get(clause.id, Result.PASS)
            watcher.results[clause.id] = ClauseResult.of(clause, result, "as seen")

    return play


def left(
    executable: Path,
    monkeypatch: pytest.MonkeyPatch,
    play: Play,
    *,
    level: Level = "hermetic",
    clauses: tuple[str, ...] = (),
) -> ProbeResult | None:
    """Probe the executable, and read what that left."""
    monkeypatch.setattr(CaseRunner, "play", play)
    folder = executable.parent
    with closing(Journal(folder / "probe.ndjson")) as journal:
        settings = ProbeSettings(level, 2, folder / "boxes", clauses=clauses)
        Probe(settings, journal, CaseRunner.of(settings.sandboxes, 2, Interrupt())).run(
            [parse_target(f"codex={executable}")]
        )
    return last_result(ProbeResult, "codex", executable, default_cache())


def test_a_finished_probe_leaves_its_verdict(executable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Release, verdict, capability and profile are those that the probe reports."""
    found = left(executable, monkeypatch, judging())
    assert found
    assert (found.engine, found.version, found.verdict) == ("codex", "0.169.0", Verdict.COMPATIBLE)
    assert (found.capability.supported, found.profile) == (True, "resumable")


@pytest.mark.parametrize(
    "other, expected",
    [
        ({"resume__repeated": Result.FAIL}, (Verdict.BROKEN, False)),
        ({"handle__shape": Result.FAIL}, (Verdict.BROKEN, False)),
        ({"resume__other_cwd": Result.FAIL}, (Verdict.DEGRADED, False)),
        ({"resume__dead_handle": Result.DEVIATES}, (Verdict.COMPATIBLE, True)),
        ({"resume__other_cwd": Result.DEVIATES}, (Verdict.COMPATIBLE, True)),
        ({"stream__framing": Result.FAIL}, (Verdict.BROKEN, True)),
        ({"resume__other_cwd": Result.NOT_RUN}, (Verdict.COMPATIBLE, True)),
    ],
)
def test_only_failures_about_resuming_count_against_it(
    other: dict[str, Result], expected: tuple[Verdict, bool], executable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed `resume.*` or `handle.*` clears the capability; a declared deviation and other failures do not."""
    found = left(executable, monkeypatch, judging(**other))
    assert found
    assert (found.verdict, found.capability.supported) == expected
    assert found.profile == ("resumable" if found.capability.supported else "sticky_process")


def test_a_probe_of_a_part_leaves_nothing(executable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither version and help pages alone, nor chosen clauses, nor a probe without an answer settle anything."""
    assert left(executable, monkeypatch, judging(), level="static") is None
    assert left(executable, monkeypatch, judging(), clauses=("handle.shape",)) is None
    assert left(executable, monkeypatch, judging(resume__accepted=Result.NOT_RUN)) is None


def test_an_interrupted_probe_leaves_nothing(executable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not asked to the end is no verdict, even where it looks like one."""

    def play(stage: CaseRunner, contract: Any, path: Path, cases: Any, watcher: ReleaseProbe) -> None:
        judging(resume__repeated=Result.FAIL)(stage, contract, path, cases, watcher)
        watcher.probe.interrupt.set()

    assert left(executable, monkeypatch, play) is None


def test_the_verdict_is_about_what_was_there_before(executable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An executable that was replaced while it was probed has no verdict."""

    def play(stage: CaseRunner, contract: Any, path: Path, cases: Any, watcher: ReleaseProbe) -> None:
        judging()(stage, contract, path, cases, watcher)
        shutil.copy2(path, path.with_name("copy"))
        path.with_name("copy").replace(path)

    assert left(executable, monkeypatch, play) is None


def test_a_replay_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recordings say nothing of an executable."""
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TURNGATE_FIXTURES", str(Path(__file__).parents[2] / "fixtures"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with closing(Journal(tmp_path / "probe.ndjson")) as journal:
        runner = CaseRunner.of(tmp_path, 2, Interrupt())
        Probe(ProbeSettings("hermetic", 2, tmp_path), journal, runner).run([parse_target("iflow")])
        assert not list((tmp_path / "cache").glob("verdicts/*"))
