"""The executable of a scenario, as a process."""

import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.longer import first_quick
from turngate import load_contract, read_turn
from turngate_probes.conform import executable
from turngate_probes.conform.calls import EngineCall, calls, requests
from turngate_probes.conform.plan import ConformPlan, Conversation
from turngate_probes.simulate.faults import Play

CODEX = load_contract("codex", "0.169.0")
TALK = Conversation("a", ("first", "second"), "amber")
SIGTERM_CODE = 143  # of Claude Code
OPTIONS = ("exec", "--json", "--skip-git-repo-check")


class Engine:
    """An installed engine, and its calls."""

    def __init__(self, root: Path, *plays: Play, engine: tuple[str, str] = ("codex", "0.169.0")) -> None:
        self.root = root
        self.path = executable.install(ConformPlan(str(root), *engine, (TALK,), plays))
        self.env = {"HOME": str(root), "PATH": os.defpath}

    def start(self, *argv: str) -> "subprocess.Popen[bytes]":
        """Start it with pipes."""
        pipe = subprocess.PIPE
        return subprocess.Popen([self.path, *argv], cwd=self.root, env=self.env, stdin=pipe, stdout=pipe, stderr=pipe)

    def turn(self, text: str, session: str | None = None) -> tuple[int, bytes, bytes]:
        """Run a turn to its end; return its exit code and its streams."""
        process = self.start(*OPTIONS, *(("resume", session) if session else ()), "-")
        out, err = process.communicate(text.encode(), timeout=60)
        return process.returncode, out, err

    def calls(self) -> tuple[EngineCall, ...]:
        """Return the records of the calls."""
        return calls(self.root)


def test_a_conversation_is_played_and_recorded(tmp_path: Path) -> None:
    """Prompts, sessions and exit codes are in the records."""
    engine = Engine(tmp_path)
    _, out, _ = engine.turn("first")
    session = engine.calls()[0].handle
    assert session is not None
    assert session.encode() in out
    code, out, _ = engine.turn("second", session)
    reading = read_turn(CODEX, "interactive", out, b"", code)
    assert "amber" in str(reading.final_text)
    assert [(call.text, call.started.resumed, call.handle, call.stdin_closed) for call in engine.calls()] == [
        ("first", None, session, True),
        ("second", session, session, True),
    ]
    assert [one.user_texts for one in requests(tmp_path)] == [("first",), ("first", "second")]


@pytest.mark.parametrize(
    "play, code, has_answer",
    first_quick(
        [
            (Play(turn=2, exit_code=1), 1, True),
            (Play(turn=2, session="lost"), 1, False),
            (Play(turn=2, backend=500), 1, False),
            (Play(turn=2, session="fresh"), 0, False),
            (Play(turn=2, omits_answer=True), 0, False),
            (Play(turn=2, blank_answer=True), 0, False),
            (Play(turn=2, crash=True), -6, False),
        ],
        3,
    ),
)
def test_the_second_turn_misbehaves(*, tmp_path: Path, play: Play, code: int, has_answer: bool) -> None:
    """As the play says, and only that turn."""
    engine = Engine(tmp_path, play)
    assert engine.turn("first")[0] == 0
    ended, out, _ = engine.turn("second", str(engine.calls()[0].handle))
    assert (ended, b"amber" in out) == (code, has_answer)


@pytest.mark.long
def test_the_file_for_the_answer_shows_the_same_fault(tmp_path: Path) -> None:
    """Without an answer it is empty, and a turn that was cut short writes none."""
    for play, written in ((Play(omits_answer=True), True), (Play(omits_end=True), False)):
        root = tmp_path / str(written)
        root.mkdir()
        with Engine(root, play).start(*OPTIONS, "--output-last-message", "answer", "-") as process:
            process.communicate(b"first", timeout=60)
        assert [file.read_text() for file in root.glob("answer")] == [""] * written


@pytest.mark.long
def test_a_renamed_session_is_resumed_by_its_new_id(tmp_path: Path) -> None:
    """The memory stays, the id doesn't."""
    engine = Engine(tmp_path, Play(turn=2, changes_session=True))
    engine.turn("first")
    _, out, _ = engine.turn("second", str(engine.calls()[0].handle))
    first, second = (call.handle for call in engine.calls())
    assert first != second
    assert b"amber" in out


def test_a_hanging_engine_records_signals(tmp_path: Path) -> None:
    """One that ignores SIGTERM is ended by SIGKILL, and has no end."""
    engine = Engine(tmp_path, Play(hang="after", ignores_termination=True))
    with engine.start(*OPTIONS, "--", "first") as process:
        assert process.stdout is not None
        while b"turn.completed" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGTERM)
        while not engine.calls()[0].signals:
            assert process.poll() is None
        process.kill()
    (call,) = engine.calls()
    assert (call.signals, call.ended, call.stdin_closed, bool(call.handle)) == (("SIGTERM",), None, False, True)


def test_a_kept_process_records_the_exit_code_after_a_signal(tmp_path: Path) -> None:
    """As the real engine, which handles SIGTERM, does."""
    engine = Engine(tmp_path, engine=("claude", "2.1.330"))
    options = ("-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
    with engine.start(*options) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"type": "user", "message": {"role": "user", "content": "first"}}\n')
        process.stdin.flush()
        while b'"result"' not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == SIGTERM_CODE
    (call,) = engine.calls()
    assert call.ended is not None
    assert (call.signals, call.ended.exit_code) == (("SIGTERM",), SIGTERM_CODE)


def test_it_waits_for_the_end_of_stdin(tmp_path: Path) -> None:
    """It prints nothing before."""
    engine = Engine(tmp_path, Play(waits_for_stdin=True))
    with engine.start(*OPTIONS, "--", "first") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        assert process.stdout.read() is None
        process.stdin.close()
        assert process.wait(60) == 0


@pytest.mark.parametrize("kind", ["works", "stays"])
def test_a_child_outlives_its_launcher(tmp_path: Path, kind: str) -> None:
    """The child that works is another process than the launcher; the one that stays holds the streams."""
    play = Play(child="works", hang="after") if kind == "works" else Play(child="stays")
    engine = Engine(tmp_path, play)
    with engine.start(*OPTIONS, "--", "first") as process:
        assert process.stdout is not None
        while b"turn.completed" not in process.stdout.readline():
            pass
        if kind == "works":
            (child,) = psutil.Process(process.pid).children()
            process.terminate()
        else:
            process.wait(60)
            (child,) = [one for one in psutil.process_iter() if one.pid != process.pid and _is_engine(one, engine)]
        process.wait(60)
        assert child.is_running()
        child.kill()


@pytest.mark.long
def test_an_upgrade_changes_the_version(tmp_path: Path) -> None:
    """Between the turns, or during the first one, which says so."""
    for when, said in (("after", False), ("during", True)):
        root = tmp_path / when
        root.mkdir()
        engine = Engine(root, Play(turn=1, release=when))  # type: ignore[arg-type]
        assert (b"Updated to 0.169.1" in engine.turn("first")[2]) == said
        version = subprocess.run([engine.path, "--version"], env=engine.env, check=True, capture_output=True)
        assert version.stdout == b"codex-cli 0.169.1\n"
        assert engine.calls()[-1].started.kind == "query"


def _is_engine(process: psutil.Process, engine: Engine) -> bool:
    try:
        return str(engine.root) in " ".join(process.cmdline())
    except psutil.Error:
        return False


def test_the_session_of_a_killed_process_is_known(tmp_path: Path) -> None:
    """Clients kill a process for several turns; a later call may resume what it printed."""
    engine = Engine(tmp_path)
    with engine.start("app-server") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"id": 1, "method": "thread/start", "params": {}}\n')
        process.stdin.flush()
        printed = process.stdout.readline()
        process.kill()
    (call,) = engine.calls()
    assert call.ended is None
    assert call.stdout.startswith(printed)
    assert b"thread" in printed
