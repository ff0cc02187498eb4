"""Faults during a sticky run: a locked store, a handler that raises, and messages beyond all limits."""

import os
import queue
import signal
import time
from collections.abc import Iterator

import psutil
import pytest

from tests.longer import first_quick
from tests.patience import PATIENCE
from tests.reference.locked_database import locked_database
from tests.reference.server.sticky_env import create, pid_of, put_engine, slots_are_free
from tests.reference.server_env import ASK, ServerEnv, final
from turngate_reference.server.orchestrator import headless, transitions, turns
from turngate_reference.server.store import database, runs
from turngate_reference.states import RunError, State


@pytest.fixture(name="server_env")
def _server_env(closed_server_env: ServerEnv) -> Iterator[ServerEnv]:
    """Provide a server with two slots and a sticky Codex."""
    put_engine(closed_server_env)
    closed_server_env.open()
    yield closed_server_env
    closed_server_env.server.close()


@pytest.mark.long
def test_a_locked_database_fails_no_turn(server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that ended while the database was locked counts, even if its process has died since."""
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.3)
    host, prompts = server_env.server.host, queue.SimpleQueue[tuple[str, str]]()
    prompt = host.prompt
    monkeypatch.setattr(host, "prompt", lambda run_id, text: prompts.put((run_id, text)))
    run_id = create(server_env, f"say {final(x=1)}")
    while (process := server_env.run(run_id).process) is None or process.pid is None:
        time.sleep(0.05)
    pid, protocol = pid_of(server_env, run_id), server_env.run(run_id).run_directory / ".turngate/attempt-001/protocol"
    with locked_database(server_env.settings.data.database):
        prompt(*prompts.get(timeout=PATIENCE))
        while "turn/completed" not in protocol.read_text():
            time.sleep(0.05)
        os.kill(pid, signal.SIGKILL)
        while psutil.pid_exists(pid):
            time.sleep(0.05)
        time.sleep(1.5)
        assert server_env.run(run_id).state is State.RUNNING
    assert server_env.wait(run_id, State.SUCCEEDED).final_data == {"x": 1}
    types = [event.type for event in runs.events(server_env.server.store, run_id)]
    assert types[-3:] == ["text", "turn.ended", "state"]
    assert slots_are_free(server_env)


@pytest.mark.parametrize("place", first_quick(["decide_kept", "reply_prompt", "first_prompt", "ask"]))
def test_whatever_a_handler_raises_ends_the_run(
    server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Whichever handler raises, the run fails with a code, its process is ended and its slot is freed."""

    def broken(*_args: object, **_more: object) -> None:
        raise OverflowError("too much")

    run_id = create(server_env, f"say {ASK}" if place == "reply_prompt" else "act" if place == "ask" else "say x")
    if place == "reply_prompt":
        question = server_env.question(run_id)
    target = {"ask": transitions, "decide_kept": headless}.get(place, turns)
    monkeypatch.setattr(target, "ask_permission" if place == "ask" else place, broken)
    if place == "reply_prompt":
        server_env.reply(run_id, question)
    assert server_env.failed(run_id) == RunError("ORCHESTRATOR_ERROR", "OverflowError: too much")
    assert slots_are_free(server_env)
    assert server_env.run(run_id).process is None


def test_a_process_that_can_not_be_opened_frees_its_slot(
    server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run fails with a code although no process ever reports an end."""

    def broken(*_args: object) -> None:
        raise RuntimeError("no loop")

    monkeypatch.setattr(server_env.server.host, "open", broken)
    assert server_env.failed(create(server_env, "say x")).code == "ORCHESTRATOR_ERROR"
    assert slots_are_free(server_env)


@pytest.mark.long
def test_final_data_that_breaks_the_validator_fails_the_run(server_env: ServerEnv) -> None:
    """A number that breaks the schema library fails the run instead of hanging it."""
    schema = {"properties": {"x": {"multipleOf": 0.5}}}
    number = "1" + "0" * 400
    run_id = create(server_env, f'say {{"outcome": "final", "final_data": {{"x": {number}}}}}', output_schema=schema)
    assert server_env.failed(run_id).code in ("ENVELOPE_INVALID", "FINAL_DATA_INVALID")
    assert slots_are_free(server_env)


@pytest.mark.parametrize(
    "odd,said",
    first_quick([("nested", "nested more than 100 levels deep"), ("digits", "JSON that exceeds the limits")]),
)
def test_a_request_that_can_not_be_stored_ends_the_run(server_env: ServerEnv, odd: str, said: str) -> None:
    """A request that is nested too deeply, or holds a number that is too long, is rejected on arrival."""
    error = server_env.failed(create(server_env, f"act\nfault: odd-request={odd}"))
    assert (error.code, said in error.detail) == ("ENGINE_FAILED", True), error
    assert slots_are_free(server_env)
