import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.patience import PATIENCE
from tests.reference.server.output_schema import hostile
from tests.reference.server.output_schema.hostile import ENDLESS, until
from turngate.errors import MachineError, UsageError
from turngate.process.launch import critical
from turngate.process.sessions import TAG
from turngate_reference.server.output_schema import checker as module
from turngate_reference.server.output_schema.checker import ChecksBusyError, SchemaChecker, SchemaTooCostlyError

STUCK = hostile.doubling(64)


class Asking:
    """A caller on a separate thread; `outcome` is its result or error."""

    def __init__(self, ask: Callable[[], str | None]) -> None:
        self.outcome: object = "nothing"
        self._ask = ask
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.outcome = self._ask()
        except (ChecksBusyError, MachineError, UsageError, SchemaTooCostlyError) as error:
            self.outcome = error

    def ended(self) -> object:
        """Wait for the outcome."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        return self.outcome


@pytest.fixture(name="checker")
def _checker() -> Iterator[SchemaChecker]:
    """Provide a checker with no time limit and two places."""
    with closing(SchemaChecker(ENDLESS, places=2)) as checker:
        yield checker


def test_every_value_reaches_the_process_whole(checker: SchemaChecker) -> None:
    """Text without meaning in UTF-8, large numbers and long text are checked as they are; nothing is fetched."""
    assert checker.schema_flaw({"pattern": "\ud800"}) is None
    assert "required" in (checker.data_flaw({}, {"required": ["x"]}) or "")
    assert "external" in (checker.schema_flaw({"$ref": "http://127.0.0.1:9/x"}) or "")
    assert checker.data_flaw([10**100, "a" * 2**20], {"contains": {"const": 10**100}}) is None
    assert not checker.pids


@pytest.mark.parametrize(
    "schema,data,limits,said",
    [
        (hostile.doubling(), {}, {"cpu_seconds": 0.1}, r"it took more than 0\.1 s of CPU time"),
        pytest.param(
            hostile.BACKTRACKING, hostile.BACKTRACKED, {"cpu_seconds": 0.1}, "CPU time", marks=pytest.mark.long
        ),
        pytest.param(
            hostile.BLOATING,
            hostile.BLOATED,
            {"cpu_seconds": ENDLESS, "memory": 2**28},
            "it took more than 256 MiB of memory",
            marks=(
                pytest.mark.long,
                pytest.mark.skipif(sys.platform != "linux", reason="only Linux enforces the memory limit"),
            ),
        ),
    ],
)
def test_a_check_that_exceeds_its_limits_is_ended_alone(
    schema: dict[str, Any], data: object, limits: dict[str, Any], said: str
) -> None:
    """Whatever the interpreter is doing, the check is ended, and the next one works."""
    with closing(SchemaChecker(**limits)) as checker:
        with pytest.raises(SchemaTooCostlyError, match=said):
            checker.data_flaw(data, schema)
        assert checker.data_flaw({"x": 1}, {"required": ["y"]}) == "$: 'y' is a required property"


@pytest.mark.parametrize("number,error", [(signal.SIGKILL, MachineError), (signal.SIGSEGV, SchemaTooCostlyError)])
def test_a_process_that_dies_fails_its_check_alone(checker: SchemaChecker, number: int, error: type) -> None:
    """The check of that process fails, and the next one works."""
    asking = Asking(lambda: checker.schema_flaw(STUCK))
    os.kill(only(checker), number)
    assert isinstance(asking.ended(), error)
    assert checker.schema_flaw({"type": 7})


def test_a_process_that_stands_still_is_ended(checker: SchemaChecker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that hangs without using CPU time is ended by the wall clock."""
    monkeypatch.setattr(module, "STUCK_SECONDS", 0.1)
    with pytest.raises(SchemaTooCostlyError, match=r"more than 0\.1 s"):
        checker.schema_flaw(STUCK)
    assert not checker.pids


def test_only_so_many_wait_and_close_fails_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one check running and one waiting, a third caller is rejected at once; `close` fails the other two."""
    monkeypatch.setattr(module, "MOST_AT_ONCE", 1)
    checker = SchemaChecker(ENDLESS, places=2)
    waiting = [Asking(lambda: checker.schema_flaw(STUCK))]
    process = psutil.Process(only(checker))
    waiting.append(Asking(lambda: checker.schema_flaw({})))
    until(lambda: checker._callers == 2)
    with pytest.raises(ChecksBusyError, match="2 output schemas are being checked already"):
        checker.schema_flaw({})
    checker.close()
    assert [str(asking.ended()) for asking in waiting] == ["the server is stopping"] * 2
    with pytest.raises(ChecksBusyError, match="the server is stopping"):
        checker.schema_flaw({})
    assert not process.is_running()


def only(checker: SchemaChecker) -> int:
    """Wait until a check runs, and return the id of its process."""
    until(lambda: bool(checker.pids))
    (pid,) = checker.pids
    return pid


def test_no_check_is_done_where_others_wait(checker: SchemaChecker) -> None:
    """Requesting a check inside a transaction raises an error."""
    with critical("a transaction"), pytest.raises(RuntimeError, match="an output schema is checked in a transaction"):
        checker.schema_flaw({})


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc to see into another process")
def test_the_process_gets_neither_secrets_nor_descriptors(
    checker: SchemaChecker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets only the environment that an interpreter needs, the tags of outer runs, and three pipes."""
    monkeypatch.setenv("OPENAI_API_KEY", "a secret")
    monkeypatch.setenv(TAG, "/outer")
    with socket.create_server(("127.0.0.1", 0)):
        asking = Asking(lambda: checker.schema_flaw(STUCK))
        seen = psutil.Process(only(checker))
    until(lambda: bool(seen.environ()))  # during exec there is briefly none
    environ = seen.environ()
    assert environ.pop(TAG) == "/outer"
    assert environ.keys() <= {"PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LC_CTYPE"}
    assert seen.num_fds() <= 4  # standard input, output and error; and a file of Python's that it is reading
    assert not seen.net_connections()
    checker.close()
    asking.ended()


def test_an_interpreter_that_can_not_run_the_worker_says_why(
    checker: SchemaChecker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has what it wrote to standard error."""
    monkeypatch.setattr(module, "WORKER", "turngate_reference.nowhere")
    with pytest.raises(MachineError, match=r"No module named turngate_reference\.nowhere"):
        checker.schema_flaw({})
