"""Tests that a reply goes to the process that a run has kept, and that everything else is as without it."""

import os
import signal
import threading
from contextlib import closing
from typing import Any

import psutil
import pytest

from tests.longer import first_quick
from tests.patience import PATIENCE
from tests.probes.simulate.played import at_known_release
from tests.reference.crash import kill_server
from tests.reference.server.warm_env import ENDS, LIVING, NEW, WarmEnv, deliveries, is_running, warm_env
from tests.reference.server_env import ASK, ServerEnv
from turngate.contract import load
from turngate.process.family import tagged
from turngate_probes.simulate.simulated_process import install
from turngate_probes.stub_model import Hang, StubRule, Text, ToolCall
from turngate_reference.server.orchestrator import kept_turn
from turngate_reference.server.orchestrator.run_files import Records
from turngate_reference.server.output_schema.checker import SchemaChecker
from turngate_reference.server.store import runs
from turngate_reference.server.store.database import Store
from turngate_reference.states import State

ENGINES = ("codex", "gemini", "opencode")


@pytest.mark.parametrize("engine", first_quick(ENGINES))
def test_a_reply_goes_to_the_living_process(closed_server_env: ServerEnv, engine: str) -> None:
    """Three turns run in one process and one session, stored before each wait; the process ends with the run."""
    with warm_env(closed_server_env, engine) as env:
        run_id, _ = env.ask(prompt="paint the door")
        pid, session = env.pid(run_id), env.server_env.run(run_id).session
        assert session
        assert psutil.pid_exists(pid)
        env.turn(run_id)
        assert (env.pid(run_id), env.server_env.run(run_id).session) == (pid, session)
        env.reply(run_id, ENDS)
        env.server_env.wait(run_id, State.SUCCEEDED)
        assert env.deliveries(run_id) == [NEW, LIVING, LIVING]
        assert "paint the door" in env.last_request()
        env.until_cold(run_id)
        assert not is_running(pid)


@pytest.mark.parametrize("engine", first_quick(ENGINES))
def test_after_the_wait_a_new_process_resumes_the_session(closed_server_env: ServerEnv, engine: str) -> None:
    """The run keeps waiting without its process; its next turn has the conversation and the same session."""
    with warm_env(closed_server_env, engine) as env:
        run_id, _ = env.ask(1, prompt="paint the door")
        session = env.server_env.run(run_id).session
        env.until_cold(run_id)
        assert env.server_env.run(run_id).state is State.WAITING_USER
        env.reply(run_id, ENDS)
        assert env.server_env.wait(run_id, State.SUCCEEDED).session == session
        assert env.deliveries(run_id) == [NEW, NEW]
        assert "paint the door" in env.last_request()


@pytest.mark.parametrize("engine", first_quick(ENGINES))
@pytest.mark.long
def test_a_run_is_warm_again_if_its_engine_can_load_headless_sessions(
    closed_server_env: ServerEnv, engine: str
) -> None:
    """The process that resumes the session stays, too; an engine that can't load it runs a headless turn."""
    with warm_env(closed_server_env, engine) as env:
        run_id, _ = env.ask(prompt="paint the door")
        env.server_env.server.kept.end(run_id)
        env.until_cold(run_id)
        run = env.turn(run_id)
        loads = load.contract(engine).at(run.engine_version).sticky.loads_headless_sessions
        assert loads is (run.process is not None)
        env.turn(run_id, "blue")
        assert env.deliveries(run_id) == [NEW, NEW, LIVING if loads else NEW]
        assert "paint the door" in env.last_request()


@pytest.mark.long
def test_a_process_killed_while_it_waits_loses_nothing(closed_server_env: ServerEnv) -> None:
    """A reply sent at the same moment is delivered once, to a new process."""
    with warm_env(closed_server_env) as env:
        run_id, _ = env.ask(prompt="paint the door")
        for number in range(3):
            os.kill(env.pid(run_id), signal.SIGKILL)
            env.turn(run_id, f"reply {number}")
        assert env.deliveries(run_id) == [NEW] * 4
        assert [env.last_request().count(f"reply {number}") for number in range(3)] == [1, 1, 1]


def test_a_process_that_does_not_answer_is_replaced(
    closed_server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopped process gets no prompt: it is ended, and a new one continues."""
    monkeypatch.setattr(kept_turn, "CHECK_SECONDS", 0.2)
    with warm_env(closed_server_env) as env:
        run_id, _ = env.ask()
        os.kill(pid := env.pid(run_id), signal.SIGSTOP)
        env.turn(run_id)
        assert env.deliveries(run_id) == [NEW, NEW]
        assert not is_running(pid)


def test_a_process_killed_in_its_turn_fails_the_run(closed_server_env: ServerEnv) -> None:
    """As for a headless turn, nobody knows what the engine has done, so the reply is not sent again."""
    with warm_env(closed_server_env) as env:
        run_id, _ = env.ask()
        pid = env.pid(run_id)
        env.box.backend.script(StubRule(Hang()))
        env.reply(run_id)
        env.until(run_id, lambda _run: len(env.deliveries(run_id)) == 2)
        os.kill(pid, signal.SIGKILL)
        assert env.server_env.failed(run_id).code == "SESSION_RESUME_FAILED"


@pytest.mark.long
def test_a_server_that_stops_ends_the_process_and_not_the_run(closed_server_env: ServerEnv) -> None:
    """After the restart, the reply goes to a new process, with the conversation."""
    with warm_env(closed_server_env) as env:
        run_id, _ = env.ask(prompt="paint the door")
        pid = env.pid(run_id)
        env.server_env.server.close()
        assert not is_running(pid)
        with env.server_env.opened():
            env.reply(run_id, ENDS)
            env.server_env.wait(run_id, State.SUCCEEDED)
            assert env.deliveries(run_id) == [NEW, NEW]
            assert "paint the door" in env.last_request()


KILLED_IN_A_WARM_WAIT = """
run_id = create("paint the door", execution_mode="interactive", warm_wait_sec=600)
wait(run_id, "waiting_user")
die()
"""
KILLED_WITH_A_REPLY = KILLED_IN_A_WARM_WAIT.replace(
    "die()",
    """
server.dispatcher.kick = lambda: None
question = runs.find(server.store, run_id).pending_interaction_id
replied(server, run_id, {"interaction_id": question, "response": "red"})
die()
""",
)


@pytest.mark.long
@pytest.mark.parametrize("code", [KILLED_IN_A_WARM_WAIT, KILLED_WITH_A_REPLY])
def test_a_server_killed_in_a_warm_wait_loses_nothing(closed_server_env: ServerEnv, code: str) -> None:
    """The next server ends the process that is left, and delivers the reply once, in the same session."""
    install(at_known_release("codex"), closed_server_env.cli_env.path)
    kill_server(closed_server_env, code)
    with closing(Store(closed_server_env.settings.data.database)) as store:
        ((run_id, process),) = runs.processes(store).items()
    with closed_server_env.opened():
        if "replied" not in code:
            closed_server_env.reply(run_id, closed_server_env.question(run_id), "red")
        run = closed_server_env.wait(run_id, State.SUCCEEDED)
        # an engine without the conversation would ask again
        assert (run.final_data["colour"], run.turn_index) == ("red", 2)
        assert deliveries(closed_server_env, run_id) == [NEW, NEW]
        assert not list(tagged({process.tag}))


def test_a_run_canceled_in_its_turn_is_canceled_once_its_process_is_gone(
    closed_server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its workspace is free for the next run only then."""
    with warm_env(closed_server_env) as env:
        run_id, _ = env.ask()
        pid, states = env.pid(run_id), states_at_the_end(env, monkeypatch)
        env.box.backend.script(StubRule(Hang()))
        env.reply(run_id)
        env.until(run_id, lambda _run: len(env.deliveries(run_id)) == 2)
        env.server_env.server.commands.cancel(run_id)
        env.server_env.wait(run_id, State.CANCELED)
        assert (states[0], is_running(pid)) == (State.RUNNING, False)
        assert env.server_env.run(run_id).process is None


def test_a_run_canceled_while_its_answer_is_judged_waits_for_its_process(
    closed_server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turn has ended, but not its process."""
    judging, judged = threading.Event(), threading.Event()

    def judge(*_: Any) -> None:
        judging.set()
        assert judged.wait(PATIENCE)

    monkeypatch.setattr(SchemaChecker, "data_flaw", judge)
    with warm_env(closed_server_env) as env:
        run_id, _ = env.ask(output_schema={"type": "object"})
        pid, states = env.pid(run_id), states_at_the_end(env, monkeypatch)
        env.reply(run_id, ENDS)
        assert judging.wait(PATIENCE)
        env.server_env.server.commands.cancel(run_id)
        judged.set()
        env.server_env.wait(run_id, State.CANCELED)
        assert (states[0], is_running(pid)) == (State.RUNNING, False)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_turn_that_can_not_be_saved_leaves_no_process(
    closed_server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would take the process again, or end it."""
    with warm_env(closed_server_env) as env:
        run_id, _ = env.ask()

        def fail(*_: object) -> None:
            raise OSError("no space left on device")

        monkeypatch.setattr(Records, "keep", fail)
        pid, kept = env.pid(run_id), env.server_env.server.kept
        env.reply(run_id)
        with kept._changed:
            assert kept._changed.wait_for(lambda: run_id not in kept._processes, PATIENCE)
        assert not is_running(pid)


def test_a_turn_that_is_too_late_fails_once_its_process_is_gone(
    closed_server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that goes on could still change the workspace of a failed run."""
    with warm_env(closed_server_env) as env:
        run_id, _ = env.ask()
        with env.server_env.server.store.writing() as connection:
            runs.change(connection, run_id, session_timeout_sec=2)
        pid, states = env.pid(run_id), states_at_the_end(env, monkeypatch)
        env.box.backend.script(StubRule(Hang()))
        env.reply(run_id)
        assert env.server_env.failed(run_id).code == "TURN_TIMEOUT"
        assert (states[0], is_running(pid)) == (State.RUNNING, False)


@pytest.mark.parametrize("engine", first_quick(ENGINES))
def test_nobody_is_asked_for_permission(closed_server_env: ServerEnv, engine: str) -> None:
    """As in a headless turn, an action that the engine would ask about isn't done."""
    with warm_env(closed_server_env, engine) as env:
        run_id, _ = env.ask()
        call = load.contract(engine).at(env.server_env.run(run_id).engine_version).hermetic.tool_call
        assert call
        env.box.backend.script(StubRule(ToolCall(call.name, call.arguments), times=1), StubRule(Text(ASK)))
        run = env.turn(run_id)
        assert env.deliveries(run_id) == [NEW, LIVING]
        assert not list(run.cwd.rglob("touched.txt"))


@pytest.mark.long
def test_a_terminal_may_continue_a_run_that_keeps_its_process(
    closed_server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`turngate resume` ends the process before it resumes the session."""
    with warm_env(closed_server_env) as env:
        run_id, _ = env.ask(prompt="paint the door")
        pid = env.pid(run_id)
        for name, value in env.server_env.settings.env.items():
            monkeypatch.setenv(name, value)
        done = env.server_env.cli_env.type("resume", env.server_env.run(run_id).handle, ENDS)
        assert done.code == 0, done
        env.server_env.wait(run_id, State.SUCCEEDED)
        assert not is_running(pid)
        assert "paint the door" in env.last_request()


@pytest.mark.long
def test_two_runs_have_their_own_processes(closed_server_env: ServerEnv) -> None:
    """Each reply goes to the run's own conversation."""
    with warm_env(closed_server_env, slots=2) as env:
        ids = [env.ask(prompt=f"paint door {number}")[0] for number in range(2)]
        assert env.pid(ids[0]) != env.pid(ids[1])
        for number, run_id in enumerate(ids):
            env.turn(run_id)
            assert f"paint door {number}" in env.last_request()
            assert env.deliveries(run_id) == [NEW, LIVING]


@pytest.mark.long
def test_the_default_of_the_server_can_be_switched_off_per_run(closed_server_env: ServerEnv) -> None:
    """The default holds for runs that say nothing; 0 in a request means no warm wait."""
    with warm_env(closed_server_env, warm_wait=600) as env:
        run_id, _ = env.ask(0)
        assert psutil.pid_exists(env.pid(run_id))
        other, _ = env.server_env.ask(engine="codex", warm_wait_sec=0)
        assert env.server_env.run(other).process is None
        assert env.deliveries(other) == [NEW]


def test_a_kept_process_is_gone_before_another_takes_the_session(closed_server_env: ServerEnv) -> None:
    """A reply that comes while the process is being ended waits for its end."""
    with warm_env(closed_server_env) as env:
        run_id, _ = env.ask()
        pid, kept = env.pid(run_id), env.server_env.server.kept
        threading.Thread(target=kept.finish, args=(run_id,)).start()
        env.turn(run_id)
        assert not is_running(pid)


def states_at_the_end(env: WarmEnv, monkeypatch: pytest.MonkeyPatch) -> list[State]:
    """Note the state of a run each time that the server begins to wait for the end of its process."""
    states, finish = list[State](), env.server_env.server.kept.finish

    def noted(run_id: str) -> None:
        states.append(env.server_env.run(run_id).state)
        finish(run_id)

    monkeypatch.setattr(env.server_env.server.kept, "finish", noted)
    return states
