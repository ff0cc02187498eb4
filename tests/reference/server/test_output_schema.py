"""Tests of output schemas that try to stop the server: many at once, in every kind of run, and during shutdown."""

import http.client
import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest

from tests.longer import first_quick
from tests.patience import PATIENCE
from tests.reference import cli_env as d
from tests.reference.caller import Answer, Caller
from tests.reference.cli_env import CliEnv
from tests.reference.server import sticky_env
from tests.reference.server.output_schema import hostile
from tests.reference.server.output_schema.hostile import ENDLESS
from tests.reference.server.sticky_env import HeldEnd, is_running, slots_are_free
from tests.reference.server.test_cli import ServeProcess
from tests.reference.server_env import ServerEnv, final
from tests.reference.wire import served
from turngate_reference.server import app
from turngate_reference.server.output_schema import worker
from turngate_reference.server.output_schema.checker import SchemaChecker
from turngate_reference.states import State

HOSTILE = {"engine": "codex", "prompt": "x", "output_schema": hostile.doubling()}
GOOD = {"engine": "codex", "prompt": "x", "output_schema": {"type": "object"}}
MANY = 48
BACKTRACKED = final(**hostile.BACKTRACKED)


class Clients:
    """Many clients that send the same run at once; `answers` grows as they are answered."""

    def __init__(self, port: int) -> None:
        self.answers: list[Answer] = []
        self._answered = threading.Condition()
        self._threads = [threading.Thread(target=self._send, args=(port,)) for _ in range(MANY)]
        for thread in self._threads:
            thread.start()

    def wait_for(self, number: int) -> list[Answer]:
        """Wait for this many answers."""
        with self._answered:
            assert self._answered.wait_for(lambda: len(self.answers) >= number, PATIENCE)
            return list(self.answers)

    def _send(self, port: int) -> None:
        answer = request(port, "POST", "/v1/runs", HOSTILE)
        with self._answered:
            self.answers.append(answer)
            self._answered.notify_all()


def request(port: int, method: str, path: str, body: object = None) -> Answer:
    """Send a request on a new connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request(method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = Answer(response.status, dict(response.getheaders()), response.read())
    connection.close()
    return answer


@pytest.fixture(name="server_env")
def _server_env(closed_server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerEnv]:
    """Provide a server whose checks have no time limit unless a test sets one."""
    monkeypatch.setattr(app, "SCHEMA_SECONDS", ENDLESS)
    monkeypatch.setattr(app, "DATA_SECONDS", ENDLESS)
    closed_server_env.cli_env.engine("codex", d.codex(BACKTRACKED))
    yield closed_server_env
    closed_server_env.server.close()


@pytest.mark.long
@pytest.mark.nightly
def test_many_hostile_schemas_at_once_leave_the_server_answering(server_env: ServerEnv) -> None:
    """While the allowed number of checks run or wait, other checks are rejected at once, and other requests work."""
    caller = Caller(server_env.open())
    with served(caller) as port:
        clients = Clients(port)
        refused = clients.wait_for(MANY - app.SCHEMA_PLACES)
        assert {answer.json["code"] for answer in refused} == {"SCHEMA_CHECKS_BUSY"}
        assert request(port, "GET", "/healthz").json == {"status": "ok"}
        assert request(port, "POST", "/v1/runs", GOOD | {"output_schema": None, "prompt": ""}).status == 422
        assert len(clients.answers) == MANY - app.SCHEMA_PLACES
        server_env.server.schemas.close()
        for answer in clients.wait_for(MANY):
            caller.hold("POST", "/v1/runs", answer)


@pytest.mark.long
def test_a_good_caller_gets_through(server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hostile schemas are rejected one by one, and a client that retries as told is served."""
    monkeypatch.setattr(app, "SCHEMA_SECONDS", 0.1)
    caller = Caller(server_env.open())
    with served(caller) as port:
        clients = Clients(port)
        answer = request(port, "POST", "/v1/runs", GOOD)
        while answer.status == 503:
            caller.hold("POST", "/v1/runs", answer)
            answer = request(port, "POST", "/v1/runs", GOOD)
        assert answer.status == 202
        answers = clients.wait_for(MANY)
    assert {answer.json["code"] for answer in answers} <= {"SCHEMA_TOO_COSTLY", "SCHEMA_CHECKS_BUSY"}
    assert "SCHEMA_TOO_COSTLY" in {answer.json["code"] for answer in answers}
    for answer in answers:
        caller.hold("POST", "/v1/runs", answer)


@pytest.mark.long
@pytest.mark.parametrize("mode", first_quick(["auto", "interactive"]))
def test_a_pattern_that_backtracks_fails_its_run_alone(
    server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """The turn has ended, but its data can't be checked in time: the run fails and says so."""
    monkeypatch.setattr(app, "DATA_SECONDS", 0.1)
    server_env.open()
    error = server_env.failed(server_env.create(output_schema=hostile.BACKTRACKING, execution_mode=mode))
    assert error.code == "SCHEMA_TOO_COSTLY"
    assert "more than 0.1 s of CPU time" in error.detail
    assert slots_are_free(server_env)


@pytest.mark.long
@pytest.mark.nightly
def test_a_memory_bomb_fails_its_run_alone(server_env: ServerEnv) -> None:
    """The memory of a check is limited."""
    server_env.cli_env.engine("codex", d.codex(final(**hostile.BLOATED)))
    server_env.open()
    error = server_env.failed(server_env.create(output_schema=hostile.BLOATING))
    assert error.code == "SCHEMA_TOO_COSTLY"
    assert "MiB of memory" in error.detail


@pytest.mark.long
def test_a_sticky_run_in_a_check_holds_up_no_other(server_env: ServerEnv) -> None:
    """Other sticky runs continue meanwhile; stopping the server also ends the run in the check."""
    sticky_env.put_engine(server_env)
    server = server_env.open()
    stuck = sticky_env.create(server_env, f"say {BACKTRACKED}", output_schema=hostile.BACKTRACKING)
    hostile.until(lambda: bool(server.results.pids))
    other = sticky_env.create(server_env, f"say {final(x=1)}")
    assert server_env.wait(other, State.SUCCEEDED).final_data == {"x": 1}
    assert server_env.run(stuck).state is State.RUNNING
    server.close()
    reopened = server_env.open()
    error = server_env.failed(stuck)
    assert error.code == "ORCHESTRATOR_RESTART_INTERRUPTED"
    assert not reopened.results.pids


@pytest.mark.long
def test_the_death_of_a_sticky_process_does_not_change_the_result(
    server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn that has ended counts even if its process dies while its data is checked."""
    sticky_env.put_engine(server_env)
    entered, leave = held_checks(monkeypatch)
    server_env.open()
    run_id = sticky_env.create(server_env, f"say {final(x=1)}", output_schema={"type": "object"})
    assert entered.wait(PATIENCE)
    process = psutil.Process(sticky_env.pid_of(server_env, run_id))
    process.kill()
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
        pass
    leave.set()
    assert server_env.wait(run_id, State.SUCCEEDED).final_data == {"x": 1}
    assert slots_are_free(server_env)


@pytest.mark.long
def test_a_sticky_run_canceled_while_its_result_is_checked_waits_for_its_process(
    server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is canceled once its idle process is gone, and its slot is free then."""
    sticky_env.put_engine(server_env)
    entered, leave = held_checks(monkeypatch)
    server = server_env.open()
    with HeldEnd(server.host) as end:
        run_id = sticky_env.create(server_env, f"say {final(x=1)}", output_schema={"type": "object"})
        assert entered.wait(PATIENCE)
        pid = sticky_env.pid_of(server_env, run_id)
        server.commands.cancel(run_id)
        leave.set()
        assert end.asked.wait(PATIENCE)
        assert server_env.run(run_id).state is State.RUNNING
    server_env.wait(run_id, State.CANCELED)
    assert not is_running(pid)
    assert slots_are_free(server_env)


def held_checks(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Let each check of data set the first event, and wait for the second; it finds no flaw."""
    entered, leave = threading.Event(), threading.Event()

    def held(*_: object) -> None:
        entered.set()
        assert leave.wait(PATIENCE)

    monkeypatch.setattr(SchemaChecker, "data_flaw", held)
    return entered, leave


def in_a_check(cli_env: CliEnv) -> tuple[ServeProcess, list[psutil.Process]]:
    """Start `turngate serve` and start a check in it; return it with the checking processes."""
    cli_env.engine("codex", d.codex(BACKTRACKED))
    serving = ServeProcess(cli_env)
    serving.post("/v1/runs", {"engine": "codex", "prompt": "x", "output_schema": hostile.BACKTRACKING})

    def checking() -> list[psutil.Process]:
        found = []
        for child in psutil.Process(serving.process.pid).children():
            with suppress(psutil.NoSuchProcess):
                if worker.__name__ in child.cmdline():
                    found.append(child)
        return found

    hostile.until(lambda: bool(checking()))
    return serving, checking()


@pytest.mark.long
def test_a_signal_ends_the_server_in_the_middle_of_a_check(cli_env: CliEnv) -> None:
    """It exits as usual, and leaves no process behind."""
    serving, processes = in_a_check(cli_env)
    assert serving.end(signal.SIGTERM) == (0, "")
    assert not psutil.wait_procs(processes, PATIENCE)[1]


@pytest.mark.long
def test_a_server_that_is_killed_leaves_no_checking_process(cli_env: CliEnv) -> None:
    """The checking process ends at a limit of the check."""
    serving, processes = in_a_check(cli_env)
    os.kill(serving.process.pid, signal.SIGKILL)
    serving.process.communicate(timeout=PATIENCE)
    assert not psutil.wait_procs(processes, PATIENCE)[1]
