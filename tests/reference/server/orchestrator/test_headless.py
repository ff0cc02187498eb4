"""One turn in a process of its own: what is checked before it starts, what it came to, and how it ends."""

import json
import logging
import shlex
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.reference import cli_env as d
from tests.reference.server_env import ASK, ServerEnv, final
from turngate.process import execution
from turngate_reference.server.states import State
from turngate_reference.server.store import runs


@pytest.mark.parametrize(
    "play,said",
    [
        (d.codex(final(x=1), session=d.OTHER), f"asked for {d.SESSION}, came back as {d.OTHER}"),
        (d.codex(final(x=1), session=None), "no session id"),
        ([["stderr", "no such session\n"], ["exit", 1]], "exited with 1"),
    ],
)
def test_another_session_is_never_taken_for_the_one(server_env: ServerEnv, play: d.Play, said: str) -> None:
    """A resume that comes back as another session, as none, or badly, fails the run and says which it was."""
    server_env.cli_env.engine("codex", d.codex(ASK), play)
    run_id, question = server_env.ask()
    server_env.reply(run_id, question)
    error = server_env.failed(run_id)
    assert error["code"] == "SESSION_RESUME_FAILED"
    assert said in error["detail"]
    session = server_env.run(run_id).session
    assert session
    assert session["handle_value"] == d.SESSION


def test_iflow_does_not_start_a_fresh_session_silently(server_env: ServerEnv) -> None:
    """A dead id of iFlow leads to exit code 0 and a fresh session; that is a failure."""
    first = json.loads(json.dumps(d.recorded("main-first")))
    first[0][1] = ASK
    server_env.cli_env.engine("iflow", first, d.recorded("bad-handles-dead"))
    run_id, question = server_env.ask(engine="iflow")
    server_env.reply(run_id, question)
    assert server_env.failed(run_id)["code"] == "SESSION_RESUME_FAILED"


def test_a_session_that_is_gone_is_noticed_before_a_process_starts(server_env: ServerEnv) -> None:
    """The engine's store is asked first, so that no engine can begin a fresh session."""
    server_env.cli_env.engine("codex", d.codex(ASK))
    run_id, question = server_env.ask()
    server_env.keep_session().unlink()
    server_env.reply(run_id, question)
    error = server_env.failed(run_id)
    assert error["code"] == "SESSION_RESUME_FAILED"
    assert "store does not hold" in error["detail"]
    assert len(server_env.cli_env.calls()) == 1


def test_a_store_that_never_held_the_session_is_not_believed(server_env: ServerEnv) -> None:
    """Where the engine keeps its sessions elsewhere, only the resume itself can tell."""
    server_env.keep_session().unlink()
    server_env.cli_env.engine("codex", d.codex(ASK), d.codex(final(x=1)))
    run_id, question = server_env.ask()
    server_env.reply(run_id, question)
    server_env.wait(run_id, State.SUCCEEDED)


def test_an_engine_that_exits_badly_fails_the_run(server_env: ServerEnv) -> None:
    """On turn 1 it is the engine that failed."""
    server_env.cli_env.engine("codex", d.codex(ASK, more=[["exit", 3]]))
    error = server_env.failed(server_env.create(execution_mode="interactive"))
    assert error["code"] == "ENGINE_FAILED"
    assert "exited with 3" in error["detail"]


def test_a_turn_is_bounded(server_env: ServerEnv) -> None:
    """A turn that outlasts session_timeout_sec is ended whole."""
    server_env.cli_env.engine("codex", d.codex(ASK, more=[["meet"]]))
    run_id = server_env.create(execution_mode="interactive", session_timeout_sec=1)
    pid = server_env.cli_env.meet()
    assert server_env.failed(run_id)["code"] == "TURN_TIMEOUT"
    assert not psutil.pid_exists(pid)


def test_an_engine_that_stays_after_its_turn_is_ended_and_its_turn_counts(
    server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its question is asked soon after, by a run that no longer has the process; there is no exit code to tell."""
    monkeypatch.setattr(execution, "EXIT_LIMIT", 0.2)
    server_env.cli_env.engine("codex", [*d.codex(ASK), ["meet"]])
    run_id = server_env.create(execution_mode="interactive", session_timeout_sec=60)
    pid = server_env.cli_env.meet()
    server_env.wait(run_id, State.WAITING_USER)
    assert not psutil.pid_exists(pid)
    (turn,) = runs.turns(server_env.server.store, run_id)
    assert (turn.outcome, turn.exit_code) == ("ask_user", None)


def test_a_resume_that_can_not_be_started_is_one_that_failed(server_env: ServerEnv) -> None:
    """An engine that is there and can't be run any more has failed, and not the server."""
    executable = server_env.cli_env.engine("codex", d.codex(ASK))
    run_id, question = server_env.ask()
    executable.write_text("#!/no/such/interpreter\n")
    server_env.reply(run_id, question)
    assert server_env.failed(run_id)["code"] == "SESSION_RESUME_FAILED"


def test_a_disk_of_ours_that_is_full_is_no_fault_of_the_engine(
    server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attempt whose traces can't be kept has failed in the server."""
    server_env.cli_env.engine("codex", d.codex(ASK))
    opened: Any = Path.open

    def full(path: Path, *mode: str, **more: Any) -> Any:
        if path.name == "stdout":
            raise OSError(28, "No space left on device")
        return opened(path, *mode, **more)

    monkeypatch.setattr(Path, "open", full)
    error = server_env.failed(server_env.create())
    assert (error["code"], "No space left" in error["detail"]) == ("ORCHESTRATOR_ERROR", True)


def test_what_is_logged_of_a_turn_can_be_run(server_env: ServerEnv, caplog: pytest.LogCaptureFixture) -> None:
    """The arguments are logged as a shell reads them."""
    server_env.cli_env.engine("codex", d.codex("ok"))
    with caplog.at_level(logging.DEBUG, "turngate_reference"):
        server_env.wait(server_env.create(engine_options=["-c", "a = 'b c'"]), State.SUCCEEDED)
    (line,) = (record.message for record in caplog.records if " turn 1: codex " in record.message)
    assert "a = 'b c'" in shlex.split(line)
