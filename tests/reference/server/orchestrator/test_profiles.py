"""Tests of how an interactive run will wait: decided by contract, help pages, executable, session store and tests."""

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec import structs

from tests.tables import each
from turngate.contract import load
from turngate.contract.engine_contract import EngineContract
from turngate.contract.verdict import Verdict
from turngate.files import default_cache
from turngate.model import EngineInteractiveProfile, EngineResumeCapability
from turngate.process.executable import MARKER, identity
from turngate.process.execution import Stop
from turngate.process.probe_results import ProbeResult, save_result
from turngate_reference.engine.attempt import InstalledEngine
from turngate_reference.server.orchestrator.profiles import FAILURES_KEPT, Profiles
from turngate_reference.server.orchestrator.verification import Status, Verifier, Verify

GOOD = "echo 'Usage: codex exec resume --json [SESSION_ID] [PROMPT]'"
Chosen = tuple[EngineInteractiveProfile, EngineResumeCapability]


class Place:
    """An engine that is a shell script, a home directory, and a clock."""

    def __init__(self, root: Path) -> None:
        self.root, self.now = root, 0.0
        self.home = root / "home"
        self.verifier = Verifier(Verify.OFF, root, Stop())
        self.profiles = Profiles(self.verifier, lambda _contract: self.env(), Stop(), lambda: self.now)

    def env(self, **variables: str) -> dict[str, str]:
        """Return the environment of an engine."""
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), **variables}

    def engine(self, script: str = GOOD, name: str = "codex", version: str | None = "0.169.0") -> InstalledEngine:
        """Write the engine's script, which records each call with its working directory and home."""
        path = self.root / name
        path.write_text(f'#!/bin/sh\necho "$PWD|$HOME|$KEY|$*" >> {self.root}/calls\n{script}\n')
        path.chmod(0o755)
        return InstalledEngine(path, version, load.contract(name).at(version), identity(path))

    def choose(self, engine: InstalledEngine, asked: str | None = None, **variables: str) -> Chosen:
        """Choose the profile of a run with 99 seconds per turn."""
        return self.profiles.choose(engine, self.env(**variables), asked=asked, session_timeout_sec=99)

    def calls(self) -> list[str]:
        """List the recorded calls."""
        file = self.root / "calls"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture(name="place")
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Provide an empty place with a separate cache."""
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "home").mkdir()
    return Place(tmp_path)


def probed(engine: InstalledEngine, *, supported: bool, **changes: object) -> None:
    """Save the result of a probe of an executable."""
    able = EngineResumeCapability(supported, "command", "resume.accepted: as seen")
    result = ProbeResult(
        engine=engine.contract.engine,
        executable=os.path.realpath(engine.executable),
        identity=identity(engine.executable),
        version=engine.version,
        contract_version=engine.contract.contract_version,
        verdict=Verdict.COMPATIBLE,
        clause_set="2026-12",
        capability=able,
        at=datetime(2026, 11, 22, tzinfo=UTC),
        turngate="0.1.0",
    )
    save_result(structs.replace(result, **changes), default_cache())


def test_an_engine_that_can_resume_is_resumable(place: Place) -> None:
    """The help pages are read in an empty directory; the last check is the reason."""
    profile, able = place.choose(place.engine(GOOD + "; ls -A >> $HOME/ls; env >> $HOME/env"))
    assert (profile.kind, profile.session_timeout_sec, profile.reason) == ("resumable", 99, able.detail)
    assert (able.supported, able.probe_method) == (True, "filesystem")
    assert able.detail == (
        f"session store: sessions can be stored in {place.root}/home/.codex/sessions; "
        "not verified on the wire: verification is turned off"
    )
    folders, homes, _, argvs = zip(*(call.split("|") for call in place.calls()), strict=True)
    assert argvs == ("exec --help", "exec resume --help")
    assert set(homes) == {f"{place.root}/home"}
    assert not any(Path(folder).exists() for folder in folders)
    assert (place.root / "home/ls").read_text() == ""
    assert "TURNGATE_CACHE_DIR" not in (place.root / "home/env").read_text()


@pytest.mark.parametrize("name, version", [("codex", "0.42.0"), ("codex", "0.34.0"), ("gemini", "0.20.2")])
def test_a_release_without_a_session_id_is_kept_running(place: Place, name: str, version: str) -> None:
    """The contract decides first, whatever the help pages or a probe say."""
    engine = place.engine("echo SESSION_ID PROMPT resume --resume", name, version)
    probed(engine, supported=True)
    profile, able = place.choose(engine)
    assert (profile.kind, able.supported) == ("sticky_process", False)
    assert profile.reason == "contract: it prints no session id"
    assert place.calls() == []
    assert place.profiles.known(engine) == able


def resume_words(contract: EngineContract) -> set[str]:
    """Return the options and commands that only a resume passes, and that a help page shows."""
    tokens = {token.removesuffix("={handle}") for token in contract.launch.resume}
    return {token for token in tokens if "{" not in token} - {*contract.launch.start, *contract.help.hidden}


# no help page shows the option with which Kimi CLI or Letta Code resumes
@each("name", sorted({*load.engine_names()} - {"kimi", "letta"}))
def test_a_help_page_without_the_resume_flag_decides(place: Place, name: str) -> None:
    """If the help lacks an option that a resume needs, the engine is kept running."""
    contract = load.contract(name).at()
    words = resume_words(contract)
    names = [word for page in contract.help.pages for word in page.names]
    assert words
    assert words <= {*names}
    stream = " >&2" if contract.help.pages[0].stream == "stderr" else ""
    others = " ".join(word for word in names if word not in words)
    engine = place.engine(f"echo '{others}'{stream}", name, None)
    profile, able = place.choose(engine)
    assert (profile.kind, able.supported, able.probe_method) == ("sticky_process", False, "command")
    assert profile.reason.startswith(f"help: `{contract.executable} ")
    assert {*profile.reason.partition(" does not list ")[2].split(", ")} == words
    assert {*place.profiles.help_missing(engine)} == words


@pytest.mark.parametrize(
    "script, reason",
    [
        ("echo 'Usage: codex exec resume'", "`codex exec resume --help` does not list SESSION_ID, PROMPT"),
        (GOOD + " >&2", "`codex exec --help` does not list resume; `codex exec resume --help` does not list"),
        (GOOD + " >&2", "SESSION_ID, PROMPT: stdout was empty, stderr has it; set `stream: stderr`"),
        ("exit 3", "`codex exec resume --help` exited with 3 and does not list SESSION_ID, PROMPT"),
        ("kill -9 $$", "exited with -9 and does not list"),
    ],
)
def test_an_engine_that_can_not_is_kept_running(place: Place, script: str, reason: str) -> None:
    """If the help doesn't show how to resume, the engine is kept running and never rejected."""
    profile, able = place.choose(place.engine(script))
    assert (profile.kind, able.supported, able.probe_method) == ("sticky_process", False, "command")
    assert profile.reason.startswith("help: ")
    assert reason in profile.reason


def test_an_engine_that_does_not_answer_is_kept_running(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for a help page has a time limit."""
    monkeypatch.setattr("turngate.process.executable.TIMEOUT", 0.05)
    profile, _ = place.choose(place.engine("exec sleep 60"))
    assert (profile.kind, "did not end" in profile.reason) == ("sticky_process", True)


def test_an_engine_that_can_not_be_started_is_kept_running(place: Place) -> None:
    """A missing interpreter or file is a reason to keep the process running."""
    place.engine().executable.write_text("#!/no/such/interpreter\n")
    path = place.root / "codex"
    engine = InstalledEngine(path, "0.169.0", load.contract("codex").at("0.169.0"), identity(path))
    assert "could not be started" in place.choose(engine)[0].reason
    good = place.engine()
    assert place.choose(good)[0].kind == "resumable"
    good.executable.unlink()
    profile, _ = place.choose(good)
    assert profile.kind == "sticky_process"
    assert profile.reason.startswith(f"executable: {path} is missing")


def test_an_executable_that_was_replaced_is_kept_running(place: Place) -> None:
    """Results for the old file don't apply to the file that replaced it."""
    engine = place.engine()
    assert place.choose(engine)[0].kind == "resumable"
    engine.executable.write_text("#!/bin/sh\n")
    profile, able = place.choose(engine)
    assert (profile.kind, able.probe_method) == ("sticky_process", "filesystem")
    assert profile.reason == f"executable: {engine.executable} was replaced since it was examined"


def test_sessions_need_a_place(place: Place) -> None:
    """If the session directory can't be created, nothing can be resumed; another home may work."""
    engine = place.engine(f"echo '{' '.join(load.contract('claude').at().help.pages[0].names)}'", "claude", "2.1.330")
    blocked = place.root / "home/.claude"
    blocked.write_text("")
    profile, able = place.choose(engine)
    assert (profile.kind, able.supported, able.probe_method) == ("sticky_process", False, "filesystem")
    assert able.detail == f"session store: sessions can't be stored: {blocked} is not a directory"
    assert place.choose(engine, CLAUDE_CONFIG_DIR=str(place.root / "else"))[1].supported
    assert not (place.root / "else").exists()
    assert "not an absolute path" in place.choose(engine, CLAUDE_CONFIG_DIR="else")[1].detail
    assert "its location is unknown" in place.choose(engine, HOME="")[1].detail
    assert len(place.calls()) == 1


def test_the_place_of_sessions_is_looked_at_before_every_run(place: Place) -> None:
    """If the session store breaks, or is repaired, the next run notices."""
    engine = place.engine()
    store = place.home / ".codex"
    seen = [place.choose(engine)[0].kind]
    store.write_text("")
    seen.append(place.choose(engine)[0].kind)
    store.unlink()
    seen.append(place.choose(engine)[0].kind)
    assert seen == ["resumable", "sticky_process", "resumable"]


def test_a_directory_must_be_writable(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """An existing directory that isn't writable can't hold sessions."""
    engine = place.engine()
    closed = (place.root / "home", os.W_OK | os.X_OK)
    # root may write anywhere, so the mode would not matter
    monkeypatch.setattr(os, "access", lambda *asked: asked != closed)
    assert place.choose(engine)[1].detail == f"session store: sessions can't be stored: {closed[0]} can't be written"


def test_help_pages_are_asked_for_until_the_executable_changes(place: Place) -> None:
    """All runs, concurrent ones too, share one survey until the executable is replaced."""
    engine = place.engine()
    with ThreadPoolExecutor(4) as pool:
        assert {profile.kind for profile, _ in pool.map(lambda _: place.choose(engine), range(8))} == {"resumable"}
    place.now = 1e9
    assert place.choose(engine)[1].supported
    assert len(place.calls()) == 2
    assert place.choose(place.engine("exit 1"))[1].supported is False
    assert len(place.calls()) == 4


def test_what_failed_is_tried_again_after_a_minute(place: Place) -> None:
    """Within a minute nothing is called; after it, a repaired engine is resumable."""
    engine = place.engine(f"test -e {place.root}/mended && {GOOD}")
    assert place.choose(engine)[0].kind == "sticky_process"
    (place.root / "mended").touch()
    place.now = FAILURES_KEPT - 1
    assert place.choose(engine)[0].kind == "sticky_process"
    assert len(place.calls()) == 2
    place.now = FAILURES_KEPT
    assert place.choose(engine)[0].kind == "resumable"


def test_a_run_may_ask_for_a_kept_process(place: Place) -> None:
    """The run's own choice wins, and the capability is still reported."""
    profile, able = place.choose(place.engine(), asked="sticky_process")
    assert (profile.kind, profile.reason) == ("sticky_process", "the run requested it")
    assert able.supported


def test_a_wish_that_can_not_be_met_is_told(place: Place) -> None:
    """An engine that can't resume is kept running, and the reason names the requested profile."""
    profile, able = place.choose(place.engine("exit 1"), asked="resumable")
    assert (profile.kind, able.supported) == ("sticky_process", False)
    assert profile.reason == f"the run requested resumable, which is not available: {able.detail}"
    profile, able = place.choose(place.engine(GOOD + "\n"), asked="resumable")
    assert (profile.kind, profile.reason) == ("resumable", able.detail)


@pytest.mark.parametrize("verdict", [Verdict.COMPATIBLE, None])
@pytest.mark.parametrize("supported, kind", [(True, "resumable"), (False, "sticky_process")])
def test_the_last_probe_decides(place: Place, supported: bool, kind: str, verdict: Verdict | None) -> None:  # noqa: FBT001
    """If this very executable was probed, in whole or for its resume, the reason is the result with its date."""
    engine = place.engine()
    probed(engine, supported=supported, verdict=verdict)
    profile, able = place.choose(engine)
    assert (profile.kind, able.supported) == (kind, supported)
    said = "" if supported else "sessions are not resumed: "
    assert profile.reason == able.detail
    assert able.detail == f"verified on the wire: {said}resume.accepted: as seen (2026-11-22)"
    assert place.profiles.known(engine) == able


def test_a_simulated_engine_is_never_proven(place: Place) -> None:
    """A simulated engine's success proves nothing, but its failure counts."""
    engine = place.engine(f"{MARKER.decode()}\n{GOOD}")
    probed(engine, supported=True)
    assert place.verifier.status(engine).status is Status.UNPROVEN
    profile, _ = place.choose(engine)
    assert profile.kind == "resumable"
    assert profile.reason.startswith("session store: ")
    probed(engine, supported=False)
    assert place.verifier.status(engine).status is Status.REFUTED


@pytest.mark.parametrize(
    "changes", [{"identity": "other"}, {"version": "0.1.0"}, {"version": None}, {"contract_version": "0.9"}]
)
def test_a_result_of_another_release_decides_nothing(place: Place, changes: Mapping[str, object]) -> None:
    """Results of a replaced file, of another release behind the same file, or by another contract don't count."""
    engine = place.engine()
    probed(engine, supported=False, **changes)
    assert place.choose(engine)[0].kind == "resumable"


def test_a_probe_made_later_decides_from_then_on(place: Place) -> None:
    """A later probe replaces earlier results."""
    engine = place.engine()
    assert place.profiles.known(engine) is None
    _, able = place.choose(engine)
    assert place.profiles.known(engine) == able
    probed(engine, supported=False)
    assert place.choose(engine)[0].kind == "sticky_process"


def test_while_a_verification_is_pending_nothing_is_promised(place: Place) -> None:
    """While a verification is pending, no capability is reported, unless another check has ruled it out."""
    engine = place.engine()
    place.verifier.mode = Verify.BACKGROUND
    place.choose(engine)
    assert place.verifier.status(engine).status is Status.PENDING
    assert place.profiles.known(engine) is None
    (place.home / ".codex").write_text("")
    able = place.profiles.known(engine)
    assert able
    assert able.detail.startswith("session store: sessions can't be stored")
