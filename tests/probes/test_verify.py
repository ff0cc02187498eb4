"""Two turns show whether an engine resumes; the result is saved for that executable."""

import json
import os
import sys
import threading
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.probes import engines
from turngate.contract import load
from turngate.contract.engine_contract import EngineContract
from turngate.files import default_cache
from turngate.process.copied_values import copied_values
from turngate.process.executable import identity
from turngate.process.probe_results import ProbeResult, Verification, last_result
from turngate_probes import verify
from turngate_probes.harness.interrupt import CaseStoppedError, Interrupt
from turngate_probes.releases.source import Release

TURNGATE = str(Path(sys.executable).with_name("turngate"))


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A separate cache for each test."""
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path / "cache"))


def ruled(executable: Path, interrupt: Interrupt | None = None) -> verify.VerificationOutcome:
    """Verify an executable as codex."""
    contract = load.contract("codex").at("0.169.0")
    release = Release("codex", "0.169.0", executable, "path", contract, "")
    return verify.verify(release, interrupt or Interrupt())


def test_an_engine_that_resumes_is_proven(tmp_path: Path) -> None:
    """The result names release and contract, and isn't marked as a whole probe."""
    executable = engines.install(tmp_path / "bin")
    verified = ruled(executable)
    assert verified.status == "proven"
    saved = last_result(Verification, "codex", executable, default_cache())
    assert saved
    assert (saved.status, saved.detail, saved.identity) == (verified.status, verified.detail, identity(executable))
    assert (saved.version, saved.contract_version) == ("0.169.0", load.contract("codex").at().contract_version)
    assert last_result(ProbeResult, "codex", executable, default_cache()) is None
    assert not any((default_cache() / "sandboxes").iterdir())


def test_a_proof_runs_with_settings_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are in the sandbox beside what keeps it closed, and the result is about them."""
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))
    (tmp_path / "config.toml").write_text('model = "mine"\n[history]\npersistence = "none"\n')
    played = list[EngineContract]()
    observe = verify._observed

    def observing(contract: EngineContract, *rest: Any) -> verify.VerificationOutcome:
        played.append(contract)
        return observe(contract, *rest)

    monkeypatch.setattr(verify, "_observed", observing)
    executable = engines.install(tmp_path / "bin")
    assert ruled(executable).status == "proven"
    (config,) = (tomllib.loads(file.content) for file in played[0].hermetic.files)
    assert (config["history"], config["model"]) == ({"persistence": "none"}, "stub")
    saved = last_result(Verification, "codex", executable, default_cache())
    assert saved
    assert saved.settings == copied_values(played[0], os.environ).digest


def test_what_keeps_a_sandbox_closed_outranks_settings_of_the_user(tmp_path: Path) -> None:
    """JSON is merged, and the value of the contract counts."""
    (tmp_path / ".gemini").mkdir()
    mine = {"general": {"sessionRetention": {"maxCount": 1}, "enableAutoUpdate": True}}
    (tmp_path / ".gemini/settings.json").write_text(json.dumps(mine))
    contract = load.contract("gemini").at()
    both = verify._with_values(contract, copied_values(contract, {"HOME": str(tmp_path)}))
    (own,), (file,) = contract.hermetic.files, both.hermetic.files
    general = json.loads(file.content).pop("general")
    assert general == json.loads(own.content)["general"] | {"sessionRetention": {"maxCount": 1}}


def test_settings_that_change_meanwhile_show_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If settings of the user change between the turns, the result is open."""
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))
    executable = engines.install(tmp_path / "bin")
    observe = verify._observed

    def changing(*given: Any) -> verify.VerificationOutcome:
        (tmp_path / "config.toml").write_text("hide_agent_reasoning = true\n")
        return observe(*given)

    monkeypatch.setattr(verify, "_observed", changing)
    assert ruled(executable).detail == "settings of the user changed during the verification"
    assert last_result(Verification, "codex", executable, default_cache()) is None


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
    verified = ruled(executable)
    assert verified.status == "refuted"
    assert verified.detail.startswith(f"{clause}: ")
    saved = last_result(Verification, "codex", executable, default_cache())
    assert saved
    assert saved.status == "refuted"


@pytest.mark.parametrize(
    "fault, why", [("exit-code=1", "the first turn failed: exit code 1"), ("answers-itself", "sent no request")]
)
def test_a_first_turn_that_fails_shows_nothing(tmp_path: Path, fault: str, why: str) -> None:
    """A failed first turn decides nothing and saves nothing, so that the next server tries again."""
    executable = engines.install(tmp_path / "bin", fault)
    verified = ruled(executable)
    assert verified.status == "unproven"
    assert why in verified.detail
    assert last_result(Verification, "codex", executable, default_cache()) is None


def test_an_executable_that_changes_meanwhile_shows_nothing(tmp_path: Path) -> None:
    """If the executable changes between the turns, the result is open."""
    executable = engines.install(tmp_path / "bin", "updates-itself")
    assert ruled(executable) == verify.VerificationOutcome(
        "unproven", "the executable was replaced during the verification"
    )
    assert last_result(Verification, "codex", executable, default_cache()) is None


def test_turns_that_do_not_end_show_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both turns share one deadline; if it passes, the result is open."""
    monkeypatch.setattr(verify, "DEADLINE", 0.5)
    executable = engines.install(tmp_path / "bin", "hang=after")
    assert ruled(executable).detail == "two turns did not end within 0 s"


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
    with pytest.raises(CaseStoppedError):
        ruled(executable, interrupt)
    thread.join()
