"""Before an interactive run it is settled how it waits: by the last probe, else by what the contract has tried."""

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec import structs

from turngate import load
from turngate.model import EngineInteractiveProfile, EngineResumeCapability
from turngate.runtime import Stop
from turngate.runtime.cache import default_cache
from turngate.runtime.identity import identity
from turngate.runtime.probe_results import Capability, ProbeResult, keep_result
from turngate.verdict import Verdict
from turngate_reference.installed import InstalledEngine
from turngate_reference.orchestrator.profiles import FAILURES_KEPT, Profiles

GOOD = "echo 'Usage: codex exec resume [SESSION_ID] [PROMPT]'"
Chosen = tuple[EngineInteractiveProfile, EngineResumeCapability]


class Place:
    """An engine that is a shell script, a home, and a clock."""

    def __init__(self, root: Path) -> None:
        self.root, self.now = root, 0.0
        self.profiles = Profiles(Stop(), lambda: self.now)

    def engine(self, script: str = GOOD, name: str = "codex", version: str | None = "0.169.0") -> InstalledEngine:
        """Write the script, which notes each call and the directory and home that it was made in."""
        path = self.root / name
        path.write_text(f'#!/bin/sh\necho "$PWD|$HOME|$KEY|$*" >> {self.root}/calls\n{script}\n')
        path.chmod(0o755)
        return InstalledEngine(path, version, load.contract(name).at(version))

    def choose(self, engine: InstalledEngine, asked: str | None = None, **variables: str) -> Chosen:
        """Choose for a run of 99 seconds a turn."""
        env = {"PATH": os.environ["PATH"], "HOME": str(self.root / "home"), **variables}
        return self.profiles.choose(engine, env, asked=asked, session_timeout_sec=99)

    def calls(self) -> list[str]:
        """List what was called."""
        file = self.root / "calls"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture(name="place")
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """An empty place with a cache of its own."""
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "home").mkdir()
    return Place(tmp_path)


def probed(engine: InstalledEngine, *, supported: bool, **changes: object) -> None:
    """Leave what a probe said of an executable."""
    able = EngineResumeCapability(supported, "command", "resume.accepted: as seen")
    result = ProbeResult(
        engine=engine.contract.engine, executable=os.path.realpath(engine.executable),
        identity=identity(engine.executable), version=engine.version, verdict=Verdict.COMPATIBLE,
        capability=Capability.of(able), profile="resumable", at=datetime(2026, 11, 22, tzinfo=UTC), turngate="0.1.0",
    )  # fmt: skip
    keep_result(structs.replace(result, **changes), default_cache())


def test_an_engine_that_can_resume_is_resumable(place: Place) -> None:
    """The command runs in an empty directory of its own, in the engine's environment, and shows what it should."""
    profile, able = place.choose(place.engine(GOOD + "; ls -A >> $HOME/ls; env >> $HOME/env"), KEY="k")
    assert (profile.kind, profile.session_timeout_sec, profile.reason) == ("resumable", 99, able.detail)
    assert (able.supported, able.probe_method) == (True, "command")
    assert "`codex exec resume --help`" in able.detail
    assert f"{place.root}/home/.codex/sessions" in able.detail
    (call,) = place.calls()
    folder, home, key, argv = call.split("|")
    assert (home, key, argv) == (f"{place.root}/home", "k", "exec resume --help")
    assert not Path(folder).exists()
    assert (place.root / "home/ls").read_text() == ""
    assert "TURNGATE_CACHE_DIR" not in (place.root / "home/env").read_text()


@pytest.mark.parametrize(
    "script, reason",
    [
        ("echo 'Usage: codex exec'", "does not name SESSION_ID, PROMPT"),
        (GOOD + " >&2", "does not name SESSION_ID, PROMPT"),
        (GOOD + "; exit 3", "exited with 3"),
        ("kill -9 $$", "exited with -9"),
    ],
)
def test_an_engine_that_can_not_is_kept_running(place: Place, script: str, reason: str) -> None:
    """A probe that fails is a reason to keep the process, and never a refusal."""
    profile, able = place.choose(place.engine(script))
    assert (profile.kind, able.supported, able.probe_method) == ("sticky_process", False, "command")
    assert reason in profile.reason


def test_an_engine_that_does_not_answer_is_kept_running(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe is bounded."""
    monkeypatch.setattr("turngate_reference.installed._TIMEOUT", 0.05)
    profile, _ = place.choose(place.engine("exec sleep 60"))
    assert (profile.kind, "did not end" in profile.reason) == ("sticky_process", True)


def test_an_engine_that_can_not_be_started_is_kept_running(place: Place) -> None:
    """No interpreter, no file: a reason as any other."""
    engine = place.engine()
    engine.executable.write_text("#!/no/such/interpreter\n")
    assert "was not started" in place.choose(engine)[0].reason
    engine.executable.unlink()
    profile, _ = place.choose(engine)
    assert (profile.kind, "is gone" in profile.reason) == ("sticky_process", True)
    assert place.profiles.known(engine) is None


def test_sessions_need_a_place(place: Place) -> None:
    """A directory that can't be made means that nothing could be resumed; another home may have one."""
    engine = place.engine(name="claude", version="2.1.330")
    blocked = place.root / "home/.claude"
    blocked.write_text("")
    profile, able = place.choose(engine)
    assert (profile.kind, able.supported, able.probe_method) == ("sticky_process", False, "filesystem")
    assert able.detail == f"sessions can't be kept: {blocked} is no directory"
    assert place.choose(engine, CLAUDE_CONFIG_DIR=str(place.root / "else"))[1].supported
    assert not (place.root / "else").exists()
    assert "no absolute path" in place.choose(engine, CLAUDE_CONFIG_DIR="else")[1].detail
    assert "nothing says where" in place.choose(engine, HOME="")[1].detail
    assert place.calls() == []


def test_a_directory_must_be_writable(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that is there but closed is no place for sessions."""
    engine = place.engine(name="claude", version="2.1.330")
    closed = (place.root / "home", os.W_OK | os.X_OK)
    # root may write anywhere, so that no mode would tell
    monkeypatch.setattr(os, "access", lambda *asked: asked != closed)
    assert place.choose(engine)[1].detail == f"sessions can't be kept: {closed[0]} can't be written"


def test_what_passed_is_remembered_until_the_executable_changes(place: Place) -> None:
    """One call serves every run, at once too, until another file stands in the place."""
    engine = place.engine()
    with ThreadPoolExecutor(4) as pool:
        assert {each[0].kind for each in pool.map(lambda _: place.choose(engine), range(8))} == {"resumable"}
    place.now = 1e9
    assert place.choose(engine)[1].supported
    assert len(place.calls()) == 1
    assert place.choose(place.engine("exit 1"))[1].supported is False
    assert len(place.calls()) == 2


def test_what_failed_is_tried_again_after_a_minute(place: Place) -> None:
    """Within the minute nothing is called; after it a mended engine is resumable."""
    engine = place.engine(f"test -e {place.root}/mended && {GOOD}")
    assert place.choose(engine)[0].kind == "sticky_process"
    (place.root / "mended").touch()
    place.now = FAILURES_KEPT - 1
    assert place.choose(engine)[0].kind == "sticky_process"
    assert len(place.calls()) == 1
    place.now = FAILURES_KEPT
    assert place.choose(engine)[0].kind == "resumable"


def test_a_run_may_ask_for_a_kept_process(place: Place) -> None:
    """The run's own wish goes first, and the capability is told all the same."""
    profile, able = place.choose(place.engine(), asked="sticky_process")
    assert (profile.kind, profile.reason) == ("sticky_process", "the run asked for it")
    assert able.supported


def test_a_wish_that_can_not_be_met_is_told(place: Place) -> None:
    """An engine that can't resume is kept, and the reason names what was asked for; one that can has its own."""
    profile, able = place.choose(place.engine("exit 1"), asked="resumable")
    assert (profile.kind, able.supported) == ("sticky_process", False)
    assert profile.reason == f"the run asked for resumable, which is not to be had: {able.detail}"
    profile, able = place.choose(place.engine(GOOD + "\n"), asked="resumable")
    assert (profile.kind, profile.reason) == ("resumable", able.detail)


@pytest.mark.parametrize("supported, kind", [(True, "resumable"), (False, "sticky_process")])
def test_the_last_probe_decides(place: Place, supported: bool, kind: str) -> None:  # noqa: FBT001
    """Where this very executable was probed nothing is tried, whatever it would say."""
    engine = place.engine("exit 1" if supported else GOOD)
    probed(engine, supported=supported)
    profile, able = place.choose(engine)
    assert (profile.kind, able.supported) == (kind, supported)
    assert profile.reason == able.detail == "turngate probe of 2026-11-22: resume.accepted: as seen"
    assert place.calls() == []
    assert place.profiles.known(engine) == able


@pytest.mark.parametrize("changes", [{"identity": "other"}, {"version": "0.1.0"}, {"version": None}])
def test_a_probe_of_another_release_decides_nothing(place: Place, changes: Mapping[str, object]) -> None:
    """What was said of the file that stood there before, or of another release behind the same file, is over."""
    engine = place.engine()
    probed(engine, supported=False, **changes)
    assert place.choose(engine)[0].kind == "resumable"


def test_a_probe_made_later_decides_from_then_on(place: Place) -> None:
    """What was tried before does not hide what a probe has found since."""
    engine = place.engine()
    assert place.profiles.known(engine) is None
    _, able = place.choose(engine)
    assert place.profiles.known(engine) == able
    probed(engine, supported=False)
    assert place.choose(engine)[0].kind == "sticky_process"


@pytest.mark.parametrize("name", load.engines())
def test_every_engine_has_something_that_can_be_tried(place: Place, name: str) -> None:
    """The newest release of every engine can earn a resumable run, and lose it."""
    contract = load.contract(name).at()
    names = contract.resume_probe.command.names if contract.resume_probe.command else ()
    good = place.engine(f"echo '{' '.join(names)}'", name, None)
    assert place.choose(good)[1].supported
    bad = place.engine("exit 1", name, None)
    assert not place.choose(bad, HOME="/dev/null")[1].supported
