"""Two turns show whether an engine resumes; the result is saved for that executable and these settings."""

import os
import threading
import tomllib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.probes import engines
from turngate.contract import load
from turngate.contract.clauses import Result
from turngate.contract.engine_contract import EngineContract
from turngate.contract.verdict import Verdict
from turngate.files import default_cache
from turngate.process.copied_values import copied_values
from turngate.process.executable import identity
from turngate.process.probe_results import ProbeResult, last_result, save_result
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.harness.runner import CaseRunner
from turngate_probes.journal.journal import Journal, read
from turngate_probes.probe import Probe
from turngate_probes.probe_settings import RESUME_CLAUSES, ProbeSettings
from turngate_probes.releases.source import Release
from turngate_probes.report.build import build
from turngate_probes.report.reports import ProbeReport

CODEX = load.contract("codex").at("0.169.0")


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A separate cache for each test."""
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path / "cache"))


def ruled(executable: Path, interrupt: Interrupt | None = None) -> ProbeReport:
    """Test whether an executable resumes as codex."""
    path = executable.parent / "probe.ndjson"
    settings = ProbeSettings("hermetic", 1, default_cache() / "sandboxes", resume=True)
    runner = CaseRunner.of(settings.sandboxes, 1, interrupt or Interrupt())
    with closing(Journal(path)) as journal:
        Probe(settings, journal, runner).run([Release("codex", "0.169.0", executable, "path", CODEX, "")])
    return build(read(path))


def saved(executable: Path) -> ProbeResult | None:
    """Return what was saved about an executable with the settings that the user has now."""
    return last_result(CODEX, executable, copied_values(CODEX, os.environ).digest, default_cache())


def test_an_engine_that_resumes_is_proven(tmp_path: Path) -> None:
    """The report has the capability and no verdict; both are saved for release, contract and settings."""
    executable = engines.install(tmp_path / "bin")
    report = ruled(executable)
    (release,) = report.releases
    assert (report.exit_code, release.verdict, release.turns) == (0, None, 2)
    assert {clause.id for clause in release.clauses} == {*RESUME_CLAUSES, "turn.terminal-event"}
    assert release.capability
    assert release.capability.supported
    result = saved(executable)
    assert result
    assert (result.verdict, result.capability, result.identity) == (None, release.capability, identity(executable))
    assert (result.version, result.contract_version) == ("0.169.0", CODEX.contract_version)
    assert not any((default_cache() / "sandboxes").iterdir())


def test_a_verdict_on_the_same_release_is_kept(tmp_path: Path) -> None:
    """The result of a whole probe outlasts one about resuming alone, unless the executable was replaced."""
    executable = engines.install(tmp_path / "bin")
    ruled(executable)
    about_resuming = saved(executable)
    assert about_resuming
    whole = ProbeResult(
        engine="codex",
        executable=os.path.realpath(executable),
        identity=identity(executable),
        version="0.169.0",
        contract_version=CODEX.contract_version,
        verdict=Verdict.DEGRADED,
        clause_set="2026-12",
        capability=about_resuming.capability,
        at=about_resuming.at,
        turngate="1",
    )
    save_result(whole, default_cache())
    ruled(executable)
    assert saved(executable) == whole
    executable.write_text(executable.read_text() + "\n")
    ruled(executable)
    result = saved(executable)
    assert result
    assert result.verdict is None


def test_a_proof_runs_with_settings_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are in the sandbox beside what keeps it closed, and the result is about them."""
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))
    (tmp_path / "config.toml").write_text('model = "mine"\n[history]\npersistence = "none"\n')
    played = list[EngineContract]()
    play = CaseRunner.play

    def playing(runner: CaseRunner, contract: EngineContract, *rest: Any) -> None:
        played.append(contract)
        play(runner, contract, *rest)

    monkeypatch.setattr(CaseRunner, "play", playing)
    executable = engines.install(tmp_path / "bin")
    assert ruled(executable).exit_code == 0
    (config,) = (tomllib.loads(file.content) for file in played[0].hermetic.files)
    assert config["history"] == {"persistence": "none"}
    assert (config["model_provider"], "model" in config) == ("stub", False)
    assert saved(executable)
    assert last_result(CODEX, executable, "", default_cache()) is None


def test_settings_that_change_meanwhile_show_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If settings of the user change between the turns, the result is open."""
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))
    play = CaseRunner.play

    def changing(*given: Any) -> None:
        (tmp_path / "config.toml").write_text("hide_agent_reasoning = true\n")
        play(*given)

    monkeypatch.setattr(CaseRunner, "play", changing)
    executable = engines.install(tmp_path / "bin")
    assert shows_nothing(executable) == "settings of the user changed during the probe"


def shows_nothing(executable: Path) -> str:
    """Test an executable whose resume can't be tested; return why."""
    report = ruled(executable)
    (release,) = report.releases
    assert (report.exit_code, release.capability, release.verdict) == (2, None, None)
    assert saved(executable) is None
    assert release.failed
    return release.failed.what


def test_an_executable_that_changes_meanwhile_shows_nothing(tmp_path: Path) -> None:
    """If the executable changes between the turns, the result is open."""
    executable = engines.install(tmp_path / "bin", "updates-itself")
    assert shows_nothing(executable) == "the executable was replaced during the probe"


@pytest.mark.long
@pytest.mark.parametrize(
    "fault, clause",
    [
        ("forgets", "resume.context-carried"),
        ("changes-session", "resume.same-handle"),
        ("session=lost", "resume.accepted"),
        ("loses-model", "resume.accepted"),
        ("renames-id", "handle.present"),
        ("session-id=stderr", "handle.place"),
        ("id-is-a-flag", "handle.present"),
    ],
)
def test_an_engine_that_does_not_resume_is_refuted(tmp_path: Path, fault: str, clause: str) -> None:
    """The detail names the clause that failed."""
    executable = engines.install(tmp_path / "bin", fault)
    report = ruled(executable)
    (release,) = report.releases
    assert release.capability
    assert (report.exit_code, release.capability.supported) == (1, False)
    assert release.capability.detail.startswith(f"{clause}: ")
    result = saved(executable)
    assert result
    assert result.capability == release.capability


@pytest.mark.parametrize(
    "fault, why", [("exit-code=1", "ended with exit code 1"), ("answers-itself", "its prompt was not sent")]
)
def test_a_first_turn_that_fails_shows_nothing_about_resuming(tmp_path: Path, fault: str, why: str) -> None:
    """The engine is broken, but whether it resumes stays open, so that the next server tries again."""
    executable = engines.install(tmp_path / "bin", fault)
    report = ruled(executable)
    (release,) = report.releases
    assert (report.exit_code, release.capability) == (1, None)
    (failed,) = (clause for clause in release.clauses if clause.result is Result.FAIL)
    assert failed.id == "turn.terminal-event"
    assert why in failed.detail
    assert saved(executable) is None


def test_an_interrupt_shows_nothing(tmp_path: Path) -> None:
    """An interrupt ends the engine and leaves the result open."""
    executable = engines.install(tmp_path / "bin", "meets-tester")
    os.mkfifo(tmp_path / "bin" / "meeting")
    interrupt = Interrupt()

    def meet() -> None:
        (tmp_path / "bin" / "meeting").read_text()
        interrupt.set()

    thread = threading.Thread(target=meet)
    thread.start()
    report = ruled(executable, interrupt)
    thread.join()
    (release,) = report.releases
    assert (report.exit_code, release.capability, release.verdict) == (130, None, None)
    assert saved(executable) is None
