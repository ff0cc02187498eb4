import subprocess
import sys
from collections.abc import Iterator
from typing import IO, cast

import pytest

from tests.patience import PATIENCE
from tests.reference.server.output_schema import hostile
from tests.reference.server.output_schema.hostile import ENDLESS
from turngate_reference.server.output_schema import worker
from turngate_reference.server.output_schema.protocol import (
    SchemaCheck,
    SchemaVerdict,
    decoded_verdict,
    encoded,
    read_frame,
    write_frame,
)

ROOMY = 2**40
GOOD = SchemaCheck({"required": ["y"]}, ENDLESS, ROOMY, applies=True, final_data={"x": 1})


class Worker:
    """A running worker process."""

    def __init__(self) -> None:
        argv = (sys.executable, "-m", worker.__name__)
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.stdin = cast(IO[bytes], self.process.stdin)

    def ask(self, check: SchemaCheck) -> SchemaVerdict:
        """Run a check."""
        write_frame(self.stdin, encoded(check))
        return decoded_verdict(read_frame(cast(IO[bytes], self.process.stdout)))


@pytest.fixture(name="running", scope="module")
def _running() -> Iterator[Worker]:
    """Start a worker for the tests of this module."""
    running = Worker()
    yield running
    running.process.communicate(timeout=PATIENCE)
    assert running.process.returncode == 0


@pytest.mark.parametrize(
    "check,said",
    [
        (SchemaCheck(hostile.doubling(), 0.1, ROOMY), "it took more than 0.1 s of CPU time"),
        (SchemaCheck(hostile.BACKTRACKING, 0.1, ROOMY, applies=True, final_data=hostile.BACKTRACKED), "CPU time"),
        pytest.param(
            SchemaCheck(hostile.BLOATING, ENDLESS, 2**28, applies=True, final_data=hostile.BLOATED),
            "it took more than 256 MiB of memory",
            marks=pytest.mark.skipif(sys.platform != "linux", reason="only Linux enforces the memory limit"),
        ),
    ],
)
def test_a_check_that_exceeds_its_limits_is_ended_alone(running: Worker, check: SchemaCheck, said: str) -> None:
    """Whatever the interpreter is doing, the check is ended, and the same process runs the next one."""
    assert said in (running.ask(check).died or "")
    assert running.ask(GOOD) == SchemaVerdict("$: 'y' is a required property")


def test_schemas_are_checked_and_applied(running: Worker) -> None:
    """A verdict names what is wrong with the schema or the data."""
    assert running.ask(SchemaCheck({"type": 7}, ENDLESS, ROOMY)).flaw
    assert running.ask(SchemaCheck({"type": "object"}, ENDLESS, ROOMY)) == SchemaVerdict()
    assert running.ask(SchemaCheck({}, ENDLESS, ROOMY, applies=True, final_data=[])) == SchemaVerdict()


def test_the_end_of_its_input_ends_it_in_the_middle_of_a_check() -> None:
    """If the server is killed, neither the worker nor its fork survives."""
    running = Worker()
    check = SchemaCheck(hostile.BACKTRACKING, ENDLESS, ROOMY, applies=True, final_data=hostile.BACKTRACKED)
    write_frame(running.stdin, encoded(check))
    _, fork = hostile.check_in_progress(lambda: running.process.pid)
    running.process.communicate(timeout=PATIENCE)
    assert running.process.returncode == 0
    fork.wait(PATIENCE)
