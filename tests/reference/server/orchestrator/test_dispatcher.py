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
from tests.reference.server.sticky_env import create, is_running, pid_of, put_engine, slots_are_free
from tests.reference.server_env import ASK, ServerEnv, final
from turngate_reference.data_dir import ALPHABET
from turngate_reference.server.orchestrator import dispatcher, transitions
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
    """The run fails, and the process that it has kept ends and frees its slot."""
    put_engine(closed_server_env)
    with closed_server_env.opened():
        run_id = create(closed_server_env, f"say {ASK}")
        question, pid = closed_server_env.question(run_id), pid_of(closed_server_env, run_id)
        monkeypatch.setattr(threading.Thread, "start", refused_once(RuntimeError("can't start new thread")))
        closed_server_env.reply(run_id, question)
        assert closed_server_env.failed(run_id).code == "ORCHESTRATOR_ERROR"
        assert slots_are_free(closed_server_env)
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
