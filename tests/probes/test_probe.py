"""Probing: what the journal says of releases, and in which order."""

import json
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.probes import engines
from tests.probes.report import samples
from turngate.contract import load
from turngate.contract.clauses import Level, Result
from turngate.contract.load import first_error
from turngate.contract.verdict import ClauseResult, Verdict
from turngate.files import default_cache
from turngate.process.probe_results import ProbeResult, last_result
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.harness.runner import CaseRunner
from turngate_probes.journal.journal import Journal, read
from turngate_probes.probe import Probe, ReleaseProbe
from turngate_probes.probe_settings import ProbeSettings
from turngate_probes.releases.target import parse_target
from turngate_probes.report.build import build

Play = Callable[..., None]
FIXTURES = Path(__file__).parents[2] / "fixtures"


@pytest.fixture(name="folder")
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use an empty cache, an empty PATH, and the shipped recordings."""
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TURNGATE_FIXTURES", str(FIXTURES))
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    return tmp_path


def probed(folder: Path, *targets: str, interrupted: bool = False, keep: bool = False) -> list[Any]:
    """Probe at level static and return the journal."""
    path = folder / "probe.ndjson"
    journal = Journal(path)
    settings = ProbeSettings("static", 2, folder / "boxes", keep=keep)
    probe = Probe(settings, journal, CaseRunner.of(settings.sandboxes, 2, Interrupt(), keep=keep))
    if interrupted:
        probe.interrupt.set()
    with closing(journal):
        probe.run([parse_target(text) for text in targets])
    return [json.loads(line) for line in path.read_text().splitlines()]


def kinds(events: list[Any]) -> list[str]:
    """Return the kinds of events in order, with pages and clauses listed once each."""
    return list(dict.fromkeys(event["event"] for event in events))


def last(events: list[Any], kind: str) -> Any:
    """Return the last event of a kind."""
    return [event for event in events if event["event"] == kind][-1]


def test_a_release_is_journalled_from_plan_to_verdict(folder: Path) -> None:
    """All events of a release come between its plan and its end, under one key."""
    executable = engines.install(folder)
    events = probed(folder, f"codex={executable}")
    assert kinds(events) == [
        "probe.started",
        "release.planned",
        "page",
        "clause",
        "release.finished",
        "probe.finished",
    ]
    assert {event["release"] for event in events[1:-1]} == {"codex@0.169.0"}
    planned, finished = last(events, "release.planned"), last(events, "release.finished")
    assert (planned["executable"], planned["source"], planned["turns"]) == (str(executable), "path", 0)
    assert finished["verdict"] == "compatible"
    assert finished["engine_seconds"] > 0
    assert last(events, "probe.finished")["engine_seconds"] == pytest.approx(finished["engine_seconds"], abs=0.01)


@pytest.mark.long
def test_the_executable_is_not_named_in_what_it_printed(folder: Path) -> None:
    """In evidence the engine's command name replaces the path of its executable."""
    page = last(probed(folder, f"codex={engines.install(folder)}"), "page")
    assert page["argv"][0] == "codex"


def test_a_withdrawn_engine_is_judged_by_its_recordings(folder: Path) -> None:
    """Without an executable, recordings are replayed, both turns and the output of plain commands."""
    events = probed(folder, "iflow")
    assert last(events, "release.planned")["source"] == "recordings"
    assert {event["result"] for event in events if event["event"] == "clause"} == {"pass"}
    assert {event["step"] for event in events if event["event"] == "page"} == {"version", "help-1"}
    assert last(events, "turn")["requests"]
    assert last(events, "release.finished")["verdict"] == "compatible"


@pytest.mark.long
def test_what_goes_wrong_with_one_leaves_the_others_alone(folder: Path) -> None:
    """A target that can't be installed is planned and failed; the other one is probed."""
    executable = engines.install(folder)
    events, name = probed(folder, "codex=/missing", f"codex={executable}", "gemini"), f"codex@0.169.0 ({executable})"
    failed = {event["release"]: event for event in events if event["event"] == "release.failed"}
    assert set(failed) == {"codex=/missing", "gemini"}
    assert all(event["what"] and event["hint"] for event in failed.values())
    assert last(events, "release.finished")["release"] == name
    planned = {event["release"]: event["source"] for event in events if event["event"] == "release.planned"}
    assert planned == {"codex=/missing": "path", "gemini": "npm", name: "path"}


@pytest.mark.long
def test_builds_of_one_version_stay_apart(folder: Path) -> None:
    """Each build has a key with its executable, separate results, and a separate folder for kept sandboxes."""
    one, two = engines.install(folder / "one"), engines.install(folder / "two", "poor-help")
    events = probed(folder, f"codex={one}", f"codex={two}", keep=True)
    results = {event["release"]: event["result"] for event in events if event.get("id") == "help.surface"}
    assert results == {f"codex@0.169.0 ({one})": "pass", f"codex@0.169.0 ({two})": "fail"}
    assert len(list((folder / "boxes").glob("*/codex@0.169.0/static"))) == 2


@pytest.mark.long
def test_a_release_that_is_probed_twice_is_numbered(folder: Path) -> None:
    """If two targets have the same executable, their keys are numbered."""
    target = f"codex={engines.install(folder)}"
    names = {event["release"] for event in probed(folder, target, target) if event["event"] == "release.finished"}
    name = f"codex@0.169.0 ({folder / 'codex'})"
    assert names == {name, f"{name} (2)"}


def test_an_interrupted_probe_says_so(folder: Path) -> None:
    """Targets that were not started are reported as interrupted, and the journal is complete."""
    events = probed(folder, f"codex={engines.install(folder)}", interrupted=True)
    assert last(events, "release.failed")["what"] == "interrupted"
    assert last(events, "probe.finished")["interrupted"] is True


@pytest.mark.long
def test_what_was_printed_is_kept_if_asked(folder: Path) -> None:
    """With `--keep`, sandboxes are stored by release and case, next to the output of their turns."""
    probed(folder, f"codex={engines.install(folder)}", keep=True)
    assert (folder / "boxes/codex@0.169.0/static/turns/version/stdout").read_bytes() == b"codex-cli 0.169.0\n"


def test_a_crash_of_ours_comes_through(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception in turngate is raised, not reported as a failed release or a verdict."""

    def crash(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(CaseRunner, "play", crash)
    with pytest.raises(ZeroDivisionError):
        probed(folder, f"codex={engines.install(folder)}")


@pytest.mark.long
def test_clauses_alone_are_asked_with_what_they_need(folder: Path) -> None:
    """A selected clause runs only with its prerequisites and their cases; nothing else is reported."""
    settings = ProbeSettings("hermetic", 2, folder / "boxes", clauses=("resume.same-handle",))
    assert set(settings.asked() or ()) == {
        "resume.same-handle",
        "resume.accepted",
        "handle.present",
        "turn.terminal-event",
    }
    assert [case.name for case in settings.cases()] == ["main"]
    journal = Journal(folder / "probe.ndjson")
    with closing(journal):
        runner = CaseRunner.of(settings.sandboxes, 2, Interrupt())
        Probe(settings, journal, runner).run([parse_target(f"codex={engines.install(folder, 'changes-session')}")])
    report = samples.plain(build(read(folder / "probe.ndjson")))
    (release,) = report["releases"]
    assert {clause["id"]: clause["result"] for clause in release["clauses"]} == {
        "handle.present": "pass",
        "turn.terminal-event": "pass",
        "resume.accepted": "pass",
        "resume.same-handle": "fail",
    }
    assert (release["verdict"], release["turns"], report["exit_code"]) == (None, 6, 1)
    assert report["clauses"] == sorted(settings.asked() or ())
    assert first_error("probe-report", report) is None


@pytest.fixture(name="executable")
def _executable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install the fake engine, and use an empty cache."""
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path / "cache"))
    return engines.install(tmp_path / "bin")


def judging(**other: Result) -> Play:
    """Run no cases, and let every clause pass except these (`_` and `__` stand for dash and dot)."""
    reported = {name.replace("__", ".").replace("_", "-"): result for name, result in other.items()}

    def play(_stage: CaseRunner, _contract: Any, _executable: Path, _cases: Any, watcher: ReleaseProbe) -> None:
        for clause in load.catalogue().at_level("static", "hermetic"):
            result = reported.get(clause.id, Result.PASS)
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
    """Probe the executable and return the saved result."""
    monkeypatch.setattr(CaseRunner, "play", play)
    folder = executable.parent
    with closing(Journal(folder / "probe.ndjson")) as journal:
        settings = ProbeSettings(level, 2, folder / "boxes", clauses=clauses)
        Probe(settings, journal, CaseRunner.of(settings.sandboxes, 2, Interrupt())).run(
            [parse_target(f"codex={executable}")]
        )
    return last_result(load.contract("codex").at(), executable, "", default_cache())


def test_a_finished_probe_leaves_its_verdict(executable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Release, verdict and capability in the saved result are those of the probe."""
    result = left(executable, monkeypatch, judging())
    assert result
    assert (result.engine, result.version, result.verdict) == ("codex", "0.169.0", Verdict.COMPATIBLE)
    assert result.capability.supported


@pytest.mark.parametrize(
    "other, expected",
    [
        ({"resume__repeated": Result.FAIL}, (Verdict.BROKEN, False)),
        ({"handle__shape": Result.FAIL}, (Verdict.DEGRADED, True)),
        ({"handle__place": Result.FAIL}, (Verdict.BROKEN, False)),
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
    """Only a failed clause about resuming or the session id's place clears the capability; a deviation doesn't."""
    result = left(executable, monkeypatch, judging(**other))
    assert result
    assert (result.verdict, result.capability.supported) == expected


def test_a_probe_of_a_part_leaves_nothing(executable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe at level static, of selected clauses, or without a verdict saves no result."""
    assert left(executable, monkeypatch, judging(), level="static") is None
    assert left(executable, monkeypatch, judging(), clauses=("handle.shape",)) is None
    assert left(executable, monkeypatch, judging(resume__accepted=Result.NOT_RUN)) is None


def test_an_interrupted_probe_leaves_nothing(executable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted probe saves no result, even if it looks like a verdict."""

    def play(stage: CaseRunner, contract: Any, path: Path, cases: Any, watcher: ReleaseProbe) -> None:
        judging(resume__repeated=Result.FAIL)(stage, contract, path, cases, watcher)
        watcher.probe.interrupt.set()

    assert left(executable, monkeypatch, play) is None


def test_the_verdict_is_about_what_was_there_before(executable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the executable was replaced during the probe, no result is saved."""

    def play(stage: CaseRunner, contract: Any, path: Path, cases: Any, watcher: ReleaseProbe) -> None:
        judging()(stage, contract, path, cases, watcher)
        shutil.copy2(path, path.with_name("copy"))
        path.with_name("copy").replace(path)

    assert left(executable, monkeypatch, play) is None


def test_a_replay_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay of recordings saves no result, since no executable ran."""
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TURNGATE_FIXTURES", str(Path(__file__).parents[2] / "fixtures"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with closing(Journal(tmp_path / "probe.ndjson")) as journal:
        runner = CaseRunner.of(tmp_path, 2, Interrupt())
        Probe(ProbeSettings("hermetic", 2, tmp_path), journal, runner).run([parse_target("iflow")])
        assert not list((tmp_path / "cache").glob("verdicts/*"))
