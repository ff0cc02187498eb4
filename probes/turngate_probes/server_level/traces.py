"""The traces of a turn on a server: its saved output, and its processes."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from turngate import Ended, Outcome
from turngate.process import Leftover
from turngate.process.family import leftover, tagged

_PARTS = 3  # a line of a trace: the time, the direction, the message


def saved(data: Path, run_id: str, number: int, stream: str) -> bytes:
    """Return the output of an engine that the server saved in a turn; empty if it saved none."""
    with suppress(OSError):
        return (data / "runs" / run_id / ".turngate" / f"attempt-{number:03}" / stream).read_bytes()
    return b""


def protocol(data: Path, run_id: str, number: int) -> bytes:
    """Return the trace of the newest process that was kept, up to a turn; empty if none was."""
    traces = (saved(data, run_id, earlier, "protocol") for earlier in range(number, 0, -1))
    return next(filter(None, traces), b"")


def printed(trace: bytes) -> bytes:
    """Return the output of a sticky process from the trace of its protocol."""
    lines = (line.split(b" ", 2) for line in trace.splitlines(keepends=True))
    return b"".join(line[2] for line in lines if line[1:2] == [b"<"] and len(line) == _PARTS)


def alive(tag: str) -> tuple[Leftover, ...]:
    """Return the processes of a turn that still run."""
    own = {tag.rpartition("/")[2]}  # after the tags of the runs around it
    return tuple(leftover(process, survived=True) for process in tagged(own))


def how_ended(run: dict[str, Any], turn: dict[str, Any], *, sticky: bool) -> Ended:
    """Return how a turn ended, according to the run and the turn in the API."""
    if (turn.get("failure") or {}).get("code") == "TURN_TIMEOUT":
        return Ended.TIMEOUT
    if run.get("state") == "canceled":
        return Ended.STOPPED
    went_well = turn.get("outcome") in (Outcome.ASK_USER, Outcome.FINAL)
    return Ended.LINGERED if went_well and turn.get("exit_code") is None and not sticky else Ended.EXIT
