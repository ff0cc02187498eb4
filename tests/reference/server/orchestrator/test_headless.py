"""Tests of one turn in a separate process: the checks before it starts, its result, and how it ends."""

import errno
import json
import logging
import shlex
import time
from pathlib import Path

import psutil
import pytest

from tests.longer import LEFT_TO_NIGHT, first_quick
from tests.reference import cli_env as d
from tests.reference.locked_database import locked_database
from tests.reference.server_env import ASK, ServerEnv, final
from turngate import Reported
from turngate.files import open_private
from turngate.process import execution
from turngate.process.family import is_alive, start_time
from turngate_reference.server.orchestrator import commands
from turngate_reference.server.store import database, runs
from turngate_reference.server.store.events import TextEvent
from turngate_reference.states import State


@pytest.fixture(name="pids")
def _pids(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the processes of the turns that were started."""
    pids: list[int] = []

    def noted(pid: int) -> float:
        pids.append(pid)
        return start_time(pid)

    monkeypatch.setattr("turngate_reference.server.orchestrator.headless.start_time", noted)
    return pids


@pytest.mark.parametrize(
    "play,said",
    [
        (d.codex(final(x=1), session=d.OTHER), f"asked for {d.SESSION}, came back as {d.OTHER}"),
        (d.codex(final(x=1), session=None), "no session id"),
        ([["stderr", "no such session\n"], ["exit", 1]], "exited with 1; stderr: no such session"),
        ([["stderr", "no such session\n"], *d.codex(final(x=1), session=d.OTHER)], "; stderr: no such session"),
    ],
)
def test_another_session_is_never_taken_for_the_one(server_env: ServerEnv, play: d.Play, said: str) -> None:
    """A resume that returns another session or none, or that fails, fails the run and says which happened."""
    server_env.cli_env.engine("codex", d.codex(ASK), play)
    run_id, question = server_env.ask()
    server_env.reply(run_id, question)
    error = server_env.failed(run_id)
    assert error.code == "SESSION_RESUME_FAILED"
    assert said in error.detail
    session = server_env.run(run_id).session
    assert session
    assert session.handle_value == d.SESSION


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_failed_turn_says_whether_its_session_is_intact(server_env: ServerEnv, *, is_kept: bool) -> None:
    """A turn that the model refused leaves the session, and the run goes on in it, unless the session is gone."""
    refused: d.Play = [["stderr", "401 Unauthorized\n"], ["meet"], ["exit", 1]]
    server_env.cli_env.engine("codex", d.codex(ASK), refused, d.codex(final(x=1)))
    run_id, question = server_env.ask()
    server_env.reply(run_id, question)
    server_env.cli_env.meet()
    if not is_kept:
        server_env.keep_session().unlink()
    server_env.cli_env.release()
    error = server_env.failed(run_id)
    assert (error.code, error.session_intact, error.can_continue) == ("SESSION_RESUME_FAILED", is_kept, is_kept)
    assert "401 Unauthorized" in error.detail
    if is_kept:
        server_env.go_on(run_id, "try again")
        server_env.wait(run_id, State.SUCCEEDED)


@pytest.mark.long
def test_a_turn_that_takes_too_long_leaves_its_session(server_env: ServerEnv) -> None:
    """The run goes on in it, also if that was its first turn."""
    server_env.cli_env.engine("codex", d.codex(more=[["hang"]]))
    error = server_env.failed(server_env.create(execution_mode="interactive", session_timeout_sec=1))
    assert (error.code, error.session_intact, error.can_continue) == ("TURN_TIMEOUT", True, True)


def test_a_first_turn_that_stored_no_session_is_over(server_env: ServerEnv) -> None:
    """The engine printed an id, and failed before it had stored anything."""
    server_env.keep_session().unlink()
    server_env.cli_env.engine("codex", [*d.codex()[:1], ["exit", 1]])
    error = server_env.failed(server_env.create(execution_mode="interactive"))
    assert (error.code, error.session_intact, error.can_continue) == ("ENGINE_FAILED", False, False)


def test_an_engine_that_lost_its_guard_gets_no_prompt(server_env: ServerEnv) -> None:
    """A first turn fails, and a reply is returned to its run, which waits on."""
    server_env.cli_env.engine("gemini", d.gemini(ASK))
    run_id, question = server_env.ask(engine="gemini")
    d.wrap(server_env.cli_env.path / "gemini")
    server_env.reply(run_id, question)
    run = server_env.wait(run_id, State.WAITING_USER)
    assert run.pending_interaction_id == question.interaction_id
    error = server_env.failed(server_env.create(engine="gemini"))
    assert (error.code, "so it got no prompt" in error.detail) == ("ENGINE_UNSAFE", True)
    assert len(server_env.cli_env.calls("gemini")) == 1


def test_a_linked_instruction_file_refuses_a_turn(server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that appears once a reply was taken returns it; the run goes on once the link is gone."""
    monkeypatch.setattr(commands, "check_instruction_files", lambda *_: None)  # it is looked for before it appears
    server_env.cli_env.engine("codex", d.codex(ASK), d.codex(final(x=1)))
    run_id, question = server_env.ask()
    link = server_env.run(run_id).cwd / "AGENTS.md"
    link.symlink_to(server_env.cli_env.root)
    server_env.reply(run_id, question)
    waiting = server_env.wait(run_id, State.WAITING_USER)
    assert (waiting.pending_interaction_id, len(server_env.cli_env.calls())) == (question.interaction_id, 1)
    link.unlink()
    server_env.reply(run_id, question)
    server_env.wait(run_id, State.SUCCEEDED)


@pytest.mark.parametrize("session", first_quick(["a/b c", "*" * 512, "ses_1", d.SESSION.upper()], 2))
def test_a_session_id_of_an_unfamiliar_shape_is_resumed_and_noted(closed_server_env: ServerEnv, session: str) -> None:
    """Ids are opaque, also after a restart; the run says how the id differs from those that the contract knows."""
    server_env = closed_server_env
    server_env.cli_env.engine("codex", d.codex(ASK, session=session), d.codex(final(x=1), session=session))
    with server_env.opened():
        run_id, question = server_env.ask()
    with server_env.opened():
        server_env.reply(run_id, question)
        run = server_env.wait(run_id, State.SUCCEEDED)
    assert session in server_env.cli_env.calls()[1]["argv"]
    assert run.session
    assert run.session.handle_value == session
    assert f"unfamiliar shape: {session!r} doesn't match [0-9a-f]" in str(run.session.note)


def test_a_session_of_an_unfamiliar_shape_that_is_gone_is_noticed(server_env: ServerEnv) -> None:
    """The session store is asked for the exact id, also if it has another letter case."""
    session = d.SESSION.upper()
    server_env.cli_env.engine("codex", d.codex(ASK, session=session))
    stored = server_env.keep_session(session)
    run_id, question = server_env.ask()
    stored.rename(stored.with_name(stored.name.lower()))
    server_env.reply(run_id, question)
    assert f"store does not hold {session}" in server_env.failed(run_id).detail


def test_iflow_does_not_start_a_fresh_session_silently(server_env: ServerEnv) -> None:
    """For a dead session id, iFlow returns exit code 0 and a new session; the run must fail."""
    first = json.loads(json.dumps(d.recorded("main-first")))
    first[0][1] = ASK
    server_env.cli_env.engine("iflow", first, d.recorded("bad-handles-dead"))
    run_id, question = server_env.ask(engine="iflow")
    server_env.reply(run_id, question)
    assert server_env.failed(run_id).code == "SESSION_RESUME_FAILED"


def test_a_session_that_is_gone_is_noticed_before_a_process_starts(server_env: ServerEnv) -> None:
    """The session store is checked first, so that the engine can't start a new session."""
    server_env.cli_env.engine("codex", d.codex(ASK))
    run_id, question = server_env.ask()
    server_env.keep_session().unlink()
    server_env.reply(run_id, question)
    error = server_env.failed(run_id)
    assert error.code == "SESSION_RESUME_FAILED"
    assert "store does not hold" in error.detail
    assert len(server_env.cli_env.calls()) == 1


def test_a_store_that_never_held_the_session_is_not_believed(server_env: ServerEnv) -> None:
    """If the engine keeps its sessions elsewhere, only the resume itself can show whether one exists."""
    server_env.keep_session().unlink()
    server_env.cli_env.engine("codex", d.codex(ASK), d.codex(final(x=1)))
    run_id, question = server_env.ask()
    server_env.reply(run_id, question)
    server_env.wait(run_id, State.SUCCEEDED)


@pytest.mark.parametrize("error", [psutil.NoSuchProcess(1), OSError(errno.EMFILE, "Too many open files")])
def test_a_process_that_can_not_be_noted_fails_nothing(
    server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """It has the prompt, even if it is gone already or can't be looked at. As for any other, its output decides."""

    def gone(_pid: int) -> float:
        raise error

    monkeypatch.setattr("turngate_reference.server.orchestrator.headless.start_time", gone)
    server_env.cli_env.engine("codex", d.codex(final(x=1)))
    server_env.wait(server_env.create(), State.SUCCEEDED)


def test_an_engine_that_exits_badly_fails_the_run(server_env: ServerEnv) -> None:
    """On turn 1, the error code is ENGINE_FAILED."""
    server_env.cli_env.engine("codex", d.codex(ASK, more=[["exit", 3]]))
    error = server_env.failed(server_env.create(execution_mode="interactive"))
    assert error.code == "ENGINE_FAILED"
    assert "exited with 3" in error.detail


def test_what_an_engine_reports_beside_its_answer_is_kept(server_env: ServerEnv) -> None:
    """An error after which a turn went on is stored with that turn, and not with the next one."""
    error = {"type": "item.completed", "item": {"type": "error", "message": "no metadata"}}
    more = [["stdout", json.dumps(error) + "\n"]]
    server_env.cli_env.engine("codex", d.codex(ASK, more=more), d.codex(final(x=1)))
    run_id, question = server_env.ask()
    server_env.reply(run_id, question)
    server_env.wait(run_id, State.SUCCEEDED)
    first, second = runs.turns(server_env.server.store, run_id)
    assert (first.reported, second.reported) == ((Reported("error", "no metadata"),), ())


def test_a_turn_is_bounded(server_env: ServerEnv, pids: list[int]) -> None:
    """A turn that exceeds session_timeout_sec is ended."""
    server_env.cli_env.engine("codex", d.codex(ASK, more=[["hang"]]))
    run_id = server_env.create(execution_mode="interactive", session_timeout_sec=1)
    assert server_env.failed(run_id).code == "TURN_TIMEOUT"
    (pid,) = pids
    assert not psutil.pid_exists(pid)


def test_an_engine_that_stays_after_its_turn_is_ended_and_its_turn_counts(
    server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch, pids: list[int]
) -> None:
    """Its question is asked after its process is ended; the turn has no exit code."""
    monkeypatch.setattr(execution, "EXIT_LIMIT", 0.2)
    server_env.cli_env.engine("codex", [*d.codex(ASK), ["hang"]])
    run_id = server_env.create(execution_mode="interactive", session_timeout_sec=1200)
    server_env.wait(run_id, State.WAITING_USER)
    (pid,) = pids
    assert not psutil.pid_exists(pid)
    (turn,) = runs.turns(server_env.server.store, run_id)
    assert (turn.outcome, turn.exit_code) == ("ask_user", None)


def test_a_disk_of_ours_that_is_full_is_no_fault_of_the_engine(
    server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the traces can't be written, the error is the server's, not the engine's."""
    server_env.cli_env.engine("codex", d.codex(ASK))

    def full(file: str, flags: int) -> int:
        if Path(file).name == "stdout":
            raise OSError(28, "No space left on device")
        return open_private(file, flags)

    monkeypatch.setattr("turngate_reference.engine.attempt.open_private", full)
    error = server_env.failed(server_env.create())
    assert (error.code, "No space left" in error.detail) == ("ORCHESTRATOR_ERROR", True)


def test_what_is_logged_of_a_turn_can_be_run(server_env: ServerEnv, caplog: pytest.LogCaptureFixture) -> None:
    """The logged arguments are quoted for a shell."""
    server_env.cli_env.engine("codex", d.codex("ok"))
    with caplog.at_level(logging.DEBUG, "turngate_reference"):
        server_env.wait(server_env.create(engine_options=["-c", "a = 'b c'"]), State.SUCCEEDED)
    (line,) = (record.message for record in caplog.records if " turn 1: codex " in record.message)
    assert "a = 'b c'" in shlex.split(line)


@pytest.mark.long
@pytest.mark.parametrize("seconds", [2.5, pytest.param(15.0, marks=LEFT_TO_NIGHT)])
def test_a_locked_database_fails_no_turn(
    closed_server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """Four turns succeed while another process locks the database: they are read to the end and saved later."""
    if seconds < database.BUSY_SECONDS:
        monkeypatch.setattr(database, "BUSY_SECONDS", 1.0)
        monkeypatch.setattr(execution, "_DRAIN_GRACE", 0.2)
    env = closed_server_env
    env.cli_env.engine("codex", [["meet"], *d.codex("one", "two", "x" * 2**20, final(x=1))])
    with env.opened(slots=4):
        run_ids = [env.create() for _ in range(4)]
        pids: set[int] = set()
        while len(pids) < 4:
            pids |= set(map(int, env.cli_env.meet_word().split()))
        with locked_database(env.settings.data.database):
            start = time.monotonic()
            env.cli_env.release()
            while any(map(is_alive, pids)):
                time.sleep(0.05)
            time.sleep(max(0.0, start + seconds - time.monotonic()))
            assert {env.run(run_id).state for run_id in run_ids} == {State.RUNNING}
        for run_id in run_ids:
            assert env.wait(run_id, State.SUCCEEDED).final_data == {"x": 1}
            events = runs.events(env.server.store, run_id)
            assert [event.type for event in events[-6:]] == [*["text"] * 4, "turn.ended", "state"]
            assert [event.as_dict()["text"][:3] for event in events[-6:-3]] == ["one", "two", "xxx"]
            (turn,) = runs.turns(env.server.store, run_id)
            assert turn.argv


def test_what_can_not_be_kept_in_memory_is_left_out_and_counted(
    server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A text that doesn't fit is missing from the events, but counts for the result and is kept in the trace."""
    monkeypatch.setattr("turngate_reference.server.orchestrator.live_run.MAX_PENDING", 100)
    server_env.cli_env.engine("codex", d.codex("x" * 101, final(x=1)))
    run = server_env.wait(server_env.create(), State.SUCCEEDED)
    texts = [
        event.data.text
        for event in runs.events(server_env.server.store, run.run_id)
        if isinstance(event.data, TextEvent)
    ]
    assert texts == [final(x=1)]
    assert "1 texts of turn 1 are missing from its events" in caplog.text
    assert "x" * 101 in (run.run_directory / ".turngate/attempt-001/stdout").read_text()
