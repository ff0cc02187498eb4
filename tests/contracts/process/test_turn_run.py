import asyncio
import json
import os
import shlex
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.contracts.releases import IDS, NEWEST
from tests.contracts.transcripts import transcript
from turngate.argv.build import Invocation, first_turn, resumed_turn
from turngate.contract.engine_contract import Deviation
from turngate.errors import MachineError
from turngate.model import Ended, Mode, Outcome
from turngate.process import execution, family
from turngate.process.execution import ProcessRequest, Stdin, Stop
from turngate.process.family import is_alive
from turngate.process.turn_run import process_request, run_turn, run_turn_async
from turngate.turn.read import TurnReader

CODEX = NEWEST["codex"]
TURN = first_turn(CODEX, "hello", Mode.AUTO)
STDOUT = transcript(CODEX, IDS["codex"], "Done.")[0]


def engine(folder: Path, *then: str) -> Path:
    """Write an engine that prints a successful turn and a warning, and then runs a shell script."""
    (folder / "stdout").write_bytes(STDOUT)
    path = folder / "engine"
    lines = ("#!/bin/sh", f"cat {shlex.quote(str(folder / 'stdout'))}", "echo careful >&2", *then)
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o755)
    return path


def request(folder: Path, *then: str, turn: Invocation = TURN, timeout: float = 60) -> ProcessRequest:
    """Return the process request for a turn of this engine."""
    return process_request(turn, engine(folder, *then), folder, env={"PATH": os.defpath}, timeout=timeout)


def test_a_turn_is_run_and_read(tmp_path: Path) -> None:
    """A turn returns its result, its session and how it ended, and listeners get its output."""
    received: list[tuple[str, bytes]] = []
    started: list[int] = []
    run = run_turn(
        request(tmp_path),
        TurnReader.for_turn(TURN),
        on_output=lambda *output: received.append(output),
        on_start=started.append,
    )
    assert run.reading.result.final_data == {"text": "Done."}
    assert run.reading.session
    assert run.reading.session.handle_value == IDS["codex"]
    assert (run.process.ended, run.process.exit_code, run.process.stderr) == (Ended.EXIT, 0, b"careful\n")
    assert b"".join(chunk for name, chunk in received if name == "stdout") == run.process.stdout == STDOUT
    assert len(started) == 1


def test_a_resumed_turn_must_come_back_in_the_same_session(tmp_path: Path) -> None:
    """A resumed turn checks that the engine reports the expected session id."""
    other = IDS["codex"].translate(str.maketrans("0123456789", "9876543210"))
    for session, outcome in ((IDS["codex"], Outcome.FINAL), (other, Outcome.ERROR)):
        turn = resumed_turn(CODEX, "go on", Mode.AUTO, session)
        reader = TurnReader.for_turn(turn, turn_index=2, needs_handle=True)
        assert run_turn(request(tmp_path, turn=turn), reader).reading.result.outcome is outcome


def test_a_turn_ends_at_its_deadline(tmp_path: Path) -> None:
    """At the deadline a turn ends with its own error, whatever the engine has printed."""
    engine(tmp_path)
    (tmp_path / "engine").write_text("#!/bin/sh\nexec sleep 600\n")
    asked = process_request(TURN, tmp_path / "engine", tmp_path, env={"PATH": os.defpath}, timeout=0.1)
    run = run_turn(asked, TurnReader.for_turn(TURN))
    assert run.process.ended is Ended.TIMEOUT
    assert (run.reading.result.failure_reason or "").startswith("TURN_TIMEOUT: ")


def test_a_turn_can_be_stopped(tmp_path: Path) -> None:
    """A turn can be stopped from any thread."""
    stop = Stop()
    run = run_turn(
        request(tmp_path, "exec sleep 600"), TurnReader.for_turn(TURN), stop=stop, on_output=lambda *_: stop.set()
    )
    assert run.process.ended is Ended.STOPPED
    assert run.reading.result.failure_reason == "TURN_TIMEOUT: the engine was stopped while it was still running"


def test_a_turn_that_was_stopped_before_its_start_says_so(tmp_path: Path) -> None:
    """An engine that was not started was neither killed nor late, and its session lacks nothing."""
    stop = Stop()
    stop.set()
    known = tuple(Deviation(f"resume.after-{what}", "turn-lost", "tell the user") for what in ("kill", "failure"))
    reader = TurnReader(replace(CODEX, deviations=known), Mode.AUTO)
    reading = run_turn(request(tmp_path, "exec sleep 600"), reader, stop=stop).reading
    why = "TURN_TIMEOUT: the engine was not started, because the turn was stopped before"
    assert (reading.result.failure_reason, reading.reported) == (why, ())


def test_output_is_heard_even_if_a_listener_to_texts_fails(tmp_path: Path) -> None:
    """If `on_text` raises, the exception is raised, and the listener has all output up to there."""

    def fail(_text: str) -> None:
        raise LookupError("nobody listens")

    received: list[bytes] = []
    with pytest.raises(LookupError, match="nobody listens"):
        run_turn(
            request(tmp_path),
            TurnReader.for_turn(TURN, on_text=fail),
            on_output=lambda _, chunk: received.append(chunk),
        )
    assert b"Done." in b"".join(received)


def test_the_request_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths are absolute, PWD is the workspace, and only allowed variables are passed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cr3t")
    built = process_request(TURN, Path("bin/codex"), Path("work"))
    assert built.argv == (str(tmp_path / "bin/codex"), *TURN.arguments)
    assert (built.cwd, built.env["PWD"]) == (tmp_path / "work", str(tmp_path / "work"))
    assert built.env["HOME"] == "/home/me"
    assert "AWS_SECRET_ACCESS_KEY" not in built.env
    assert built.stdin == b"hello"
    by_argument = first_turn(CODEX, "hello", Mode.AUTO, via="argument")
    assert process_request(by_argument, Path("bin/codex"), Path("work")).stdin is Stdin.CLOSED


def test_the_interpreter_of_an_engine_never_comes_from_the_workspace(tmp_path: Path) -> None:
    """Nor if the caller's own environment has a PATH with an empty or relative folder."""
    for name, prints in (("work", "stolen"), ("own", "own")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "interpreter").write_text(f"#!/bin/sh\necho {prints}\n")
        (tmp_path / name / "interpreter").chmod(0o755)
    (tmp_path / "engine").write_text("#!/usr/bin/env interpreter\n")
    (tmp_path / "engine").chmod(0o755)
    env = {"PATH": f":.:../work:{tmp_path}/own:{os.defpath}"}
    asked = process_request(TURN, tmp_path / "engine", tmp_path / "work", env=env)
    assert run_turn(asked, TurnReader.for_turn(TURN)).process.stdout == b"own\n"


def test_turns_run_at_the_same_time_on_an_event_loop(tmp_path: Path) -> None:
    """Several turns run in parallel on an event loop, which stays responsive."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        os.mkfifo(tmp_path / name / "other")

    async def both() -> list[object]:
        meet = ("echo >../b/other & read line <other", "read line <other; echo >../a/other")
        turns = [
            run_turn_async(request(tmp_path / name, then), TurnReader.for_turn(TURN))
            for name, then in zip("ab", meet, strict=True)
        ]
        return [run.reading.result.final_data for run in await asyncio.gather(*turns)]

    assert asyncio.run(both()) == [{"text": "Done."}] * 2


def test_a_canceled_turn_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the task has been cancelled, even several times, the engine and its child processes have ended."""
    monkeypatch.setattr(family, "TERM_GRACE", 0.1)
    engine(tmp_path)
    (tmp_path / "engine").write_text("#!/bin/sh\ntrap '' TERM\nsleep 600 &\necho $! $$\nwait\n")
    asked = process_request(TURN, tmp_path / "engine", tmp_path, env={"PATH": os.defpath})
    pids: list[int] = []

    async def canceled() -> None:
        loop, printed = asyncio.get_running_loop(), asyncio.Event()

        def received(_stream: str, chunk: bytes) -> None:
            pids.extend(map(int, chunk.split()))
            loop.call_soon_threadsafe(printed.set)

        turn = asyncio.create_task(run_turn_async(asked, TurnReader.for_turn(TURN), on_output=received))
        await printed.wait()
        for _ in range(3):
            turn.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await turn

    asyncio.run(canceled())
    assert len(pids) == 2
    assert not any(map(is_alive, pids))


def test_an_engine_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """A missing engine is an environment error, in both ways to run a turn."""
    asked = process_request(TURN, tmp_path / "none", tmp_path, env={})
    with pytest.raises(MachineError, match="could not be started"):
        run_turn(asked, TurnReader.for_turn(TURN))
    with pytest.raises(MachineError, match="could not be started"):
        asyncio.run(run_turn_async(asked, TurnReader.for_turn(TURN)))


def test_a_process_that_goes_on_after_its_question_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets the usual time to exit, counted from the question, and nothing that it prints replaces that."""
    monkeypatch.setattr(execution, "EXIT_LIMIT", 0.3)
    question = {"kind": "confirm", "prompt": "Sure?", "options": [], "required_fields": [], "context": {}}
    asked = json.dumps({"outcome": "ask_user", "interaction": question})
    turn = first_turn(CODEX, "hello", Mode.INTERACTIVE)
    own = request(tmp_path, turn=turn).argv[0]
    (tmp_path / "stdout").write_bytes(transcript(CODEX, IDS["codex"], asked)[0])
    (tmp_path / "own").write_bytes(STDOUT)
    Path(own).write_text(f"#!/bin/sh\ncat '{tmp_path}/stdout'\nwhile cat '{tmp_path}/own'; do sleep 0.01; done\n")
    process = process_request(turn, Path(own), tmp_path, env={"PATH": os.defpath})
    run = run_turn(process, TurnReader.for_turn(turn))
    assert run.process.ended is Ended.LINGERED
    assert STDOUT in run.process.stdout
    assert run.reading.result.interaction
    assert run.reading.result.interaction.prompt == "Sure?"
