"""The traces that a turn on a server leaves."""

import os
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.tables import each
from turngate.model import Ended
from turngate.process.execution import ProcessRequest, Stop, run
from turngate_probes.server_level import server_run

ASKED = {"outcome": "ask_user"}


def test_a_saved_stream_is_that_of_its_turn(tmp_path: Path) -> None:
    """Output is read from the run's folder by the turn's number; a missing file is empty."""
    folder = tmp_path / "runs/r1/.turngate/attempt-002"
    folder.mkdir(parents=True)
    (folder / "stdout").write_bytes(b"hello")
    assert server_run.saved(tmp_path, "r1", 2, "stdout") == b"hello"
    assert server_run.saved(tmp_path, "r1", 1, "stdout") == b""


def test_a_kept_process_has_the_trace_of_the_turn_that_started_it(tmp_path: Path) -> None:
    """The newest trace up to a turn counts, and later ones do not."""
    for number in (1, 3):
        folder = tmp_path / f"runs/r1/.turngate/attempt-{number:03}"
        folder.mkdir(parents=True)
        (folder / "protocol").write_text(str(number))
    assert [server_run.protocol(tmp_path, "r1", number) for number in range(5)] == [b"", b"1", b"1", b"3", b"3"]


def test_only_what_the_process_said_is_printed() -> None:
    """Input to the process and unfinished lines are not part of its output."""
    protocol = b'12.1 > {"ask": 1}\n12.2 < {"answer": 1}\n12.3 <'
    assert server_run.printed(protocol) == b'{"answer": 1}\n'


@each(
    "state, turn, sticky, ended",
    [
        ("failed", {"failure": {"code": "TURN_TIMEOUT"}}, False, Ended.TIMEOUT),
        ("canceled", {"exit_code": -15}, False, Ended.STOPPED),
        ("waiting_user", {**ASKED, "exit_code": 0}, False, Ended.EXIT),
        ("waiting_user", ASKED, False, Ended.LINGERED),
        ("waiting_user", ASKED, True, Ended.EXIT),
        ("failed", {"outcome": "error"}, False, Ended.EXIT),
    ],
)
def test_the_end_of_a_turn_is_read_from_the_api(
    state: str, turn: dict[str, Any], ended: Ended, *, sticky: bool
) -> None:
    """A successful turn whose process didn't exit was still running, unless its process is sticky."""
    assert server_run.how_ended({"state": state}, turn, sticky=sticky) is ended


def test_what_runs_on_is_found_by_its_tag(tmp_path: Path) -> None:
    """Processes with the tag are listed while they run, and not after they have ended."""
    listed: list[bool] = []
    command = ("/bin/sh", "-c", "echo started; sleep 600")
    tag = str(uuid4())  # processes of other tests run at the same time
    stop = Stop()

    def received(_stream: str, _chunk: bytes) -> bool:
        listed.append(bool(server_run.alive(f"/outer/{tag}")))
        stop.set()
        return False

    run(ProcessRequest(command, tmp_path, dict(os.environ), tag=tag), stop=stop, on_output=received)
    assert listed == [True]
    assert server_run.alive(f"/outer/{tag}") == ()
