"""Tests that the queue survives failures of the machine."""

import logging
import re
import sqlite3
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.patience import PATIENCE
from tests.reference import cli_env as d
from tests.reference.server.warm_env import is_running, warm_env
from tests.reference.server_env import ServerEnv, final
from turngate_reference.data_dir import ALPHABET
from turngate_reference.server.orchestrator import dispatcher, transitions
from turngate_reference.server.store import runs
from turngate_reference.states import State


@pytest.fixture(name="impatient", autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the dispatcher retry quickly."""
    monkeypatch.setattr(dispatcher, "RETRY_SECONDS", 0.05)


def refused_once(error: Exception) -> Callable[[threading.Thread], None]:
    """Make the start of a turn's thread fail once."""
    start, left = threading.Thread.start, [error]

    def refuse(thread: threading.Thread) -> None:
        if left and re.fullmatch(f"turngate-[{ALPHABET}]{{8}}", thread.name):
            raise left.pop()
        start(thread)

    return refuse


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()])
def test_a_turn_that_gets_no_thread_fails_alone(
    server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The run fails with the system's message, its slot is freed, and the next run succeeds."""
    server_env.cli_env.engine("codex", d.codex(final(x=1)))
    server_env.server.engines.collect()
    monkeypatch.setattr(threading.Thread, "start", refused_once(error))
    first = server_env.create()
    reported = server_env.failed(first)
    assert (reported.code, type(error).__name__ in reported.detail) == ("ORCHESTRATOR_ERROR", True)
    assert server_env.cli_env.record(server_env.run(first).handle)["state"] == "failed"
    server_env.wait(server_env.create(), State.SUCCEEDED)
    assert server_env.server.dispatcher.wait_until_free(PATIENCE)
    assert server_env.server.ready


def test_a_run_whose_failure_can_not_be_written_yet_is_failed_later(
    server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the store is locked at that moment, the run is failed later instead of being left behind."""
    server_env.cli_env.engine("codex", d.codex(final(x=1)))
    server_env.server.engines.collect()
    written, left = transitions.end_turn, [sqlite3.OperationalError("database is locked")]

    def locked(*given: Any) -> State | None:
        if left:
            raise left.pop()
        return written(*given)

    monkeypatch.setattr(transitions, "end_turn", locked)
    monkeypatch.setattr(threading.Thread, "start", refused_once(RuntimeError("can't start new thread")))
    assert server_env.failed(server_env.create()).code == "ORCHESTRATOR_ERROR"
    assert not left


def test_a_turn_that_can_not_be_started_leaves_no_process(
    closed_server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that the run has kept ends, and the reply is returned."""
    with warm_env(closed_server_env) as env:
        run_id, _ = env.ask()
        pid = env.pid(run_id)
        monkeypatch.setattr(threading.Thread, "start", refused_once(RuntimeError("can't start new thread")))
        env.reply(run_id)
        env.server_env.wait_for_state(run_id, "waiting_user", times=2)
        unsent = runs.unsent_reply(env.server_env.server.store, run_id)
        assert unsent is not None
        assert unsent.code == "ORCHESTRATOR_ERROR"
        env.until_cold(run_id)
        assert not is_running(pid)


def test_what_nobody_foresaw_does_not_end_the_queue(
    server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An unexpected error is logged, and the queue is processed again."""
    server_env.cli_env.engine("codex", d.codex(final(x=1)))
    claim, left = transitions.claim, [MemoryError()]

    def odd(*given: Any) -> Any:
        if left:
            raise left.pop()
        return claim(*given)

    monkeypatch.setattr(transitions, "claim", odd)
    with caplog.at_level(logging.ERROR):
        server_env.wait(server_env.create(), State.SUCCEEDED)
    assert "MemoryError" in caplog.text
