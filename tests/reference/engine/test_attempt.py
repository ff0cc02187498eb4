"""Tests of one attempt at a turn: its traces on disk, how it ends, and whether it succeeded."""

import json
from pathlib import Path

import psutil
import pytest

from tests.fakes.hopper import hopper
from tests.reference import cli_env as d
from tests.reference.cli_env import CliEnv, Play, wrap
from turngate.process import execution, family
from turngate.process.family import Noted, end_orphans
from turngate_reference.engine import attempt


def test_an_engine_that_stays_without_an_answer_has_failed(cli_env: CliEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """That there was no answer is said beside how the process ended."""
    monkeypatch.setattr(execution, "EXIT_LIMIT", 0.2)
    cli_env.engine("codex", [*d.codex(""), ["hang"]])
    said = cli_env.type("start", "codex", "hello")
    assert (said.code, cli_env.only_record()["state"]) == (1, "failed")
    assert "after its turn, without an answer; it may have changed files" in said.err


@pytest.mark.parametrize("more, code", [("", 0), ('{"type": "turn.failed"}\n', 1)])
def test_an_engine_that_stays_after_its_turn_is_ended(
    cli_env: CliEnv, monkeypatch: pytest.MonkeyPatch, more: str, code: int
) -> None:
    """An engine that doesn't exit is ended and reported; the exit code is 0 if the turn succeeded, else 1."""
    monkeypatch.setattr(execution, "EXIT_LIMIT", 0.2)
    *turn, (stream, end) = d.codex("hi")
    cli_env.engine("codex", [*turn, [stream, end + more], ["hang"]])
    said = cli_env.type("start", "codex", "hello")
    assert (said.code, said.out) == (code, "hi\n")
    assert "codex was stopped: it was still running" in said.err
    assert cli_env.only_record()["session"]["value"] == d.SESSION


@pytest.mark.processes
def test_what_goes_on_in_new_processes_is_ended(cli_env: CliEnv, tmp_path: Path) -> None:
    """A process that forks and changes its session every 10 ms doesn't survive the turn that started it."""
    with hopper(tmp_path) as hops:
        cli_env.engine("codex", d.codex("hi", more=[["hop", str(hops.fifo)]]))
        said = cli_env.type("start", "codex", "hello")
        assert hops.is_gone()
    assert (said.code, "could not stop" in said.err) == (0, False)


@pytest.mark.processes
def test_what_can_not_be_ended_is_told(
    cli_env: CliEnv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Processes that survive the end of the turn are named."""
    with hopper(tmp_path) as hops:
        # a search may miss one that never rests
        cli_env.engine("codex", d.codex("hi", more=[["hop", str(hops.fifo), "tired"]]))
        with monkeypatch.context() as powerless:
            for grace in ("TERM_GRACE", "KILL_GRACE"):
                powerless.setattr(family, grace, 0.02)
            powerless.setattr(psutil.Process, "send_signal", lambda *_: None)
            assert cli_env.type("start", "codex", "hello").code == 0
        assert f"could not stop these processes of {cli_env.path}/codex: " in caplog.text
        assert end_orphans([Noted(cli_env.only_record()["runId"])]) == ()
        assert hops.is_gone()


@pytest.mark.parametrize(
    "play,why",
    [
        (d.codex("hi")[:-1], "did not report the end of its turn"),
        (d.codex(), "returned no answer; it may have changed files"),
        (d.codex("hi", "\n "), "returned no answer; it may have changed files"),
        (
            d.codex("hi", more=[["stdout", 'x {"type": "turn.failed"}\n']]),
            "returned no answer that can be read; it may",
        ),
    ],
)
def test_a_turn_that_only_looks_well_is_told(cli_env: CliEnv, play: Play, why: str) -> None:
    """Exit code 0 without the end of the turn, or with a blank or lost answer, is told and recorded as a failure."""
    cli_env.engine("codex", play)
    said = cli_env.type("start", "codex", "hello")
    assert (said.code, cli_env.only_record()["state"]) == (5, "failed")
    assert why in said.err


def test_an_engine_that_lost_its_guard_gets_no_prompt(cli_env: CliEnv) -> None:
    """A wrapper on PATH that replaces NODE_OPTIONS makes every turn fail, and says what to look for."""
    cli_env.engine("gemini", d.gemini("hi"))
    handle = cli_env.begin("gemini")
    wrap(cli_env.path / "gemini")
    for words in (("start", "gemini", "hello"), ("resume", handle, "go on")):
        said = cli_env.type(*words)
        assert (said.code, "exited with 42 before its guard had an effect, so it got no prompt" in said.err) == (
            2,
            True,
        )
        assert "replaces NODE_OPTIONS" in said.err
    assert len(cli_env.calls("gemini")) == 1


def test_a_linked_instruction_file_refuses_every_turn(cli_env: CliEnv) -> None:
    """A link out of the workspace is named, on a first turn and a resume, and no process is started."""
    cli_env.engine("codex", d.codex("hi"))
    (cli_env.root / "project").mkdir()
    start = ("start", "codex", "--cwd", "project", "hello")
    handle = cli_env.begin(*start[1:])
    (cli_env.root / "project/AGENTS.md").symlink_to(cli_env.root)
    for words in (start, ("resume", handle, "go on")):
        said = cli_env.type(*words)
        assert (said.code, "AGENTS.md leads out of the workspace" in said.err) == (2, True)
    assert len(cli_env.calls()) == 1


def test_the_traces_of_each_attempt_are_kept(cli_env: CliEnv) -> None:
    """The run directory holds the command, stdout and stderr of each attempt."""
    cli_env.engine("codex", [*d.codex("hi"), ["stderr", "a warning\n"]])
    handle = cli_env.begin()
    cli_env.type("resume", handle, "go on")
    folder = Path(cli_env.only_record()["runDirectory"]) / ".turngate"
    assert sorted(path.name for path in folder.iterdir()) == ["attempt-001", "attempt-002"]
    first = folder / "attempt-001"
    assert "thread.started" in (first / "stdout").read_text()
    assert (first / "stderr").read_text() == "a warning\n"
    assert json.loads((first / "command.json").read_text())["argv"][1:] == cli_env.calls()[0]["argv"]


def test_traces_are_bounded(cli_env: CliEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the beginning of each stream is kept, but the turn is read to its end."""
    monkeypatch.setattr(attempt, "MAX_TRACE", 10)
    cli_env.engine("codex", d.codex("hi"))
    assert cli_env.type("start", "codex", "hello").out == "hi\n"
    (stdout,) = cli_env.root.rglob("attempt-001/stdout")
    assert stdout.read_text() == '{"type": "'


def test_traces_that_can_not_be_written_are_told(cli_env: CliEnv) -> None:
    """If there is no room for the traces, no engine runs."""
    cli_env.engine("codex", d.codex("hi"))
    handle = cli_env.begin()
    (Path(cli_env.only_record()["runDirectory"]) / ".turngate" / "attempt-002").touch()
    said = cli_env.type("resume", handle, "go on")
    assert (said.code, "attempt-002 can't be written" in said.err, len(cli_env.calls())) == (2, True, 1)
