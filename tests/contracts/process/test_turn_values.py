"""Turns as values, with a simulated codex: what a queue carries, and what a killed worker leaves."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

import turngate
from turngate_probes.simulate.simulated_process import install

CODEX = turngate.load_contract("codex", "0.169.0")


@pytest.fixture(name="turn")
def _turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> turngate.TurnInput:
    """A first turn, for a host with a simulated codex."""
    (tmp_path / "work").mkdir()
    install(CODEX, tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.defpath}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    return turngate.TurnInput("codex", "Paint the door", str(tmp_path / "work"), timeout=60)


def test_a_reply_that_was_stored_reaches_the_session(turn: turngate.TurnInput) -> None:
    """The output of the first turn and the input of the second survive a way through text."""
    asked = turngate.TurnOutput.from_json(turngate.play_turn(turn).to_json())
    assert asked.result.interaction
    assert asked.session
    reply = turngate.TurnInput.from_json(turn.reply("red", asked).to_json())
    answered = turngate.play_turn(reply)
    assert (answered.result.final_data, answered.session) == ({"colour": "red"}, asked.session)


@pytest.mark.long
def test_the_release_is_that_of_the_workspace(turn: turngate.TurnInput, tmp_path: Path) -> None:
    """A shim that picks an older release there, which prints other records, is read by the claims of that release."""
    for version in ("0.42.0", "0.169.0"):
        install(turngate.load_contract("codex", version), tmp_path / version)
    shim = f'#!/bin/sh\n[ -e pin ] && exec {tmp_path}/0.42.0/codex "$@"\nexec {tmp_path}/0.169.0/codex "$@"\n'
    (tmp_path / "bin/codex").write_text(shim)
    (tmp_path / "work/pin").touch()
    asked = turngate.play_turn(turn)
    assert asked.result.interaction
    (tmp_path / "work/pin").unlink()
    assert turngate.play_turn(turn).result.interaction


@pytest.mark.long
def test_a_session_that_this_host_lacks_is_not_started_afresh(
    turn: turngate.TurnInput, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On another host, whose home has no such session, the turn is an error with its code."""
    asked = turngate.play_turn(turn)
    (tmp_path / "other").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "other"))
    failed = turngate.play_turn(turn.reply("red", asked))
    assert (failed.result.failure_reason or "").startswith(turngate.Failure.SESSION_RESUME_FAILED)


def test_an_engine_that_is_not_installed_is_named(turn: turngate.TurnInput, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is the caller's to report; nothing was started."""
    monkeypatch.setenv("PATH", os.defpath)
    with pytest.raises(turngate.NotInstalledError, match="codex"):
        turngate.play_turn(turn)


@pytest.mark.parametrize("workspace", ["", "work", "~/work"])
def test_a_workspace_that_depends_on_the_host_is_refused(turn: turngate.TurnInput, workspace: str) -> None:
    """A path that isn't absolute would lead somewhere else in each process; nothing is started."""
    with pytest.raises(turngate.UsageError, match=f"'{workspace}' is not absolute"):
        turngate.play_turn(replace(turn, workspace=workspace))


@pytest.mark.long
def test_a_turn_that_cannot_start_is_known_before_it_is_accepted(
    turn: turngate.TurnInput, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `check_turn` raises has the code of the HTTP API; a turn that can start is not started by it."""
    turngate.check_turn(turn)
    refused = {
        "UNKNOWN_ENGINE": replace(turn, engine="kodex"),
        "WORKSPACE_UNAVAILABLE": replace(turn, workspace=f"{turn.workspace}/gone"),
        "AUTO_FLAG_REFUSED": replace(turn, options=("--dangerously-bypass-approvals-and-sandbox",)),
        "OPTION_REFUSED": replace(turn, options=("--no-such-option",)),
        "PROMPT_REFUSED": replace(turn, message="half of a character: \ud800"),
        "ENGINE_UNAVAILABLE": turn,
    }
    for code, changed in refused.items():
        if code == "ENGINE_UNAVAILABLE":
            monkeypatch.setenv("PATH", os.defpath)
        with pytest.raises(turngate.TurngateError) as raised:
            turngate.check_turn(changed)
        assert turngate.not_started(raised.value).partition(": ")[0] == code
    assert not (Path(os.environ["HOME"]) / ".codex/sessions").exists()


@pytest.mark.long
def test_a_setting_that_lets_the_engine_act_unasked_is_refused(turn: turngate.TurnInput, tmp_path: Path) -> None:
    """So it is before the reply to a question too; the operator of the host may allow the engine."""
    asked = turngate.play_turn(turn)
    setting = tmp_path / ".codex/config.toml"
    setting.write_text('[mcp_servers.files.tools.write]\napproval_mode = "approve"\n')
    for play in (turngate.check_turn, turngate.play_turn):
        with pytest.raises(turngate.RefusedError, match=r"approved-mcp-tools.*config\.toml") as raised:
            play(turn.reply("red", asked))
        assert turngate.not_started(raised.value).startswith("ENGINE_UNSAFE: ")
    allowed = turngate.Trust(unsafe_engines=frozenset({"codex"}))
    assert turngate.play_turn(turn.reply("red", asked), trust=allowed).result.final_data == {"colour": "red"}


@pytest.mark.long
def test_a_workspace_that_takes_the_engine_over_must_be_trusted(turn: turngate.TurnInput, tmp_path: Path) -> None:
    """A release whose contract declares that is refused in it; it runs where the operator trusts the files."""
    install(turngate.load_contract("codex", "0.166.0"), tmp_path / "bin")
    with pytest.raises(turngate.RefusedError, match="files in the workspace") as raised:
        turngate.play_turn(turn)
    assert turngate.not_started(raised.value).startswith("ENGINE_UNSAFE: ")
    trusted = turngate.Trust(workspaces=(Path(turn.workspace),))
    assert turngate.play_turn(turn, trust=trusted).result.interaction


def test_a_release_whose_version_nobody_can_read_is_refused(turn: turngate.TurnInput, tmp_path: Path) -> None:
    """A wrapper that prints one line more may hide a release that is refused by itself."""
    wrapper = tmp_path / "bin/opencode"
    wrapper.write_text("#!/bin/sh\necho Welcome\necho 1.1.0\n")
    wrapper.chmod(0o755)
    with pytest.raises(turngate.RefusedError, match="some releases of opencode") as raised:
        turngate.check_turn(replace(turn, engine="opencode"))
    assert turngate.not_started(raised.value).startswith("ENGINE_UNSAFE: ")


def test_a_single_tag_is_no_list_of_tags() -> None:
    """A text would be taken for a list of its letters, and nothing would end."""
    with pytest.raises(turngate.UsageError, match=r"write end_tagged\(\['run-1'\]\)"):
        turngate.end_tagged("run-1")


def test_a_tag_that_no_process_could_have_is_refused(turn: turngate.TurnInput) -> None:
    """With a slash it would be two tags: `end_tagged` would end nothing, and a daemon would outlive its turn."""
    with pytest.raises(turngate.UsageError, match="'42/1' has a slash"):
        turngate.play_turn(turn, tag="42/1")
    with pytest.raises(turngate.UsageError, match="'42/1' has a slash"):
        turngate.end_tagged(["1", "42/1"])
    with pytest.raises(turngate.UsageError, match="empty tag"):
        turngate.end_tagged([""])


@pytest.mark.parametrize("text", ["", "[]", '{"engine": "codex"}', "[" * 100_000])
def test_text_that_is_no_turn_is_refused(text: str) -> None:
    """Whatever it is instead, the error is one of usage."""
    with pytest.raises(turngate.UsageError, match="TurnInput"):
        turngate.TurnInput.from_json(text)


def test_what_a_killed_worker_left_is_ended_by_its_tag(turn: turngate.TurnInput, tmp_path: Path) -> None:
    """The engine outlives its worker, and no longer once the next one asks; a turn with another tag stays."""
    (tmp_path / "bin/codex").write_text(
        "#!/bin/sh\n[ $1 = --version ] && echo codex-cli 0.169.0 && exit\nexec sleep 600\n"
    )
    worker = "import sys, turngate; turngate.play_turn(turngate.TurnInput.from_json(sys.argv[1]), tag=sys.argv[2])"
    workers = {
        tag: subprocess.Popen((sys.executable, "-c", worker, turn.to_json(), tag)) for tag in ("run-1.1", "run-2.1")
    }
    engines = {tag: _engine_of(process.pid) for tag, process in workers.items()}
    for process in workers.values():
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert all(engine.is_running() for engine in engines.values())
    turngate.end_tagged(["run-1.1"])
    assert [_runs(engine) for engine in engines.values()] == [False, True]
    turngate.end_tagged(["run-2.1"])
    assert not any(map(_runs, engines.values()))


def _engine_of(worker: int) -> psutil.Process:
    while True:
        for child in psutil.Process(worker).children():
            with suppress(psutil.NoSuchProcess):  # one that was asked for its version has ended meanwhile
                if child.name() == "sleep":
                    return child


def _runs(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
