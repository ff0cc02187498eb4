import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from turngate.process.family import KILL_GRACE, Family, Found, end_all, is_alive
from turngate.process.sessions import sessions
from turngate.process.tree import ProcessTree

pytestmark = pytest.mark.processes

# its child leads a session of its own, and only the tag in its environment shows whose it is
WAITS = "echo $$; exec 3<>pipe; read line <&3"  # says its pid itself, so that it has its own arguments by then
LEAVES = f"mkfifo pipe; setsid sh -c '{WAITS}' & exec >&-"


def _line(process: subprocess.Popen[bytes]) -> int:
    assert process.stdout
    assert process.stderr
    pid = int(process.stdout.readline())
    process.stdout.close()
    process.stderr.close()
    return pid


def test_what_outlived_the_main_process_is_described_and_ended(tmp_path: Path) -> None:
    """A process with the tag is ended, wherever it is; one without stays."""
    before = sessions()
    tree = ProcessTree("own")
    process = tree.start(("/bin/sh", "-c", LEAVES), tmp_path, {"PATH": "/usr/bin:/bin"}, stdin=False)
    pid = _line(process)
    tree.wait()
    other, _ = Family(process.pid, "other", before | {(process.pid, process.pid)}).settle(0)
    assert (other, is_alive(pid)) == ((), True)
    [left], _ = Family(process.pid, "own", before).settle(0)
    assert (left.pid, left.argv, left.survived) == (pid, ("sh", "-c", WAITS), False)
    assert not is_alive(pid)
    tree.reap()


def test_what_was_killed_before_is_not_left_though_it_has_not_ended_yet(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The engine has ended it, and the kernel is late."""

    def kill(rest: list[psutil.Process]) -> float:
        for process in rest:
            process.kill()
        return 0.0

    before = sessions()
    tree = ProcessTree("own")
    process = tree.start(("/bin/sh", "-c", LEAVES), tmp_path, {"PATH": "/usr/bin:/bin"}, stdin=False)
    _line(process)
    tree.wait()
    monkeypatch.setattr("turngate.process.family._cpu", kill)
    assert Family(process.pid, "own", before).settle(0) == ((), 0.0)
    tree.reap()


@pytest.fixture(name="child")
def _child() -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that ignores SIGTERM, and end it after the test."""
    ignores = "trap '' TERM; echo ready; read line"
    with subprocess.Popen(["/bin/sh", "-c", ignores], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout
        child.stdout.readline()
        yield child
        child.kill()


def test_what_ended_is_not_left_though_searches_miss_something(
    monkeypatch: pytest.MonkeyPatch, child: subprocess.Popen[bytes]
) -> None:
    """On a machine on which processes end all the time, a process that ended late does not count as a survivor."""
    monkeypatch.setattr("turngate.process.family.TERM_GRACE", 0.0)
    monkeypatch.setattr("turngate.process.family.KILL_GRACE", 0.0)

    def sweep(number: signal.Signals) -> Found:
        if number == signal.SIGTERM:
            return Found([psutil.Process(child.pid)], missed=True)
        child.kill()
        child.wait()
        return Found([], missed=True)

    assert end_all(sweep) == []


def test_a_long_search_takes_nothing_from_the_grace_period(
    monkeypatch: pytest.MonkeyPatch, child: subprocess.Popen[bytes]
) -> None:
    """A process that a search of many seconds has found and killed gets the usual time to end."""
    clock, told = [1.0], list[signal.Signals]()

    def sleep(seconds: float) -> None:
        clock[0] += seconds
        if told[-1] == signal.SIGKILL:
            child.wait()

    def sweep(number: signal.Signals) -> Found:
        found = [psutil.Process(child.pid)] if is_alive(child.pid) else []
        child.send_signal(number)
        told.append(number)
        clock[0] += KILL_GRACE
        return Found(found, missed=False)

    monkeypatch.setattr("turngate.process.family.time", SimpleNamespace(monotonic=lambda: clock[0], sleep=sleep))
    assert end_all(sweep) == []
