"""Adopted processes are reaped when they end; the status of every other child stays for those who wait for it."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Container
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from tests.patience import PATIENCE
from turngate.process.execution import ProcessRequest, run
from turngate.process.sessions import adopting_orphans, reap_adopted, reaping_adopted
from turngate.process.tree import ProcessTree

pytestmark = [pytest.mark.processes, pytest.mark.skipif(sys.platform != "linux", reason="only Linux adopts processes")]
ENV = {"PATH": "/usr/bin:/bin"}
# leaves a process that ends when something is written to the fifo `go`, in the engine's session or one of its own
LEAVES = "({setsid} sh -c 'echo $$ > met; read line < go' &) > /dev/null 2>&1; read line < end; exit 7"


@pytest.mark.parametrize("setsid", ["", "setsid"], ids=["same-session", "own-session"])
def test_an_adopted_process_is_reaped_while_its_tree_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setsid: str
) -> None:
    """It stays no zombie until a tree ends, and the tree's own process keeps its exit code."""
    for name in ("met", "go", "end"):
        os.mkfifo(tmp_path / name)
    gone, left = threading.Event(), list[int]()

    def reap(leaders: Container[int]) -> None:
        reap_adopted(leaders)
        if left and not psutil.pid_exists(left[0]):
            gone.set()

    monkeypatch.setattr("turngate.process.sessions.reap_adopted", reap)
    with adopting_orphans(), reaping_adopted():
        tree = ProcessTree("tree")
        process = tree.start(("sh", "-c", LEAVES.format(setsid=setsid)), tmp_path, ENV, stdin=False)
        left.append(int((tmp_path / "met").read_text()))
        (tmp_path / "go").write_text("go\n")
        assert gone.wait(PATIENCE)
        (tmp_path / "end").write_text("end\n")
        tree.wait()
        assert tree.settle() == ()
        assert tree.reap()[0] == 7
    for stream in (process.stdout, process.stderr):
        assert stream
        stream.close()


def test_no_status_that_others_wait_for_is_taken(tmp_path: Path) -> None:
    """Trees and other children that end at the same time all keep their exit codes."""
    request = ProcessRequest(("sh", "-c", "exit 7"), tmp_path, ENV)

    def other(_: int) -> int:
        return subprocess.run(("sh", "-c", "exit 5"), check=False).returncode

    with adopting_orphans(), reaping_adopted(), ThreadPoolExecutor(8) as pool:
        outcomes = pool.map(run, [request] * 40)
        others = pool.map(other, range(40))
        assert {outcome.exit_code for outcome in outcomes} == {7}
        assert {*others} == {5}


def test_what_had_ended_before_is_reaped_too(tmp_path: Path) -> None:
    """A process that was adopted and ended before the block needs no further signal."""
    os.mkfifo(tmp_path / "met")
    with adopting_orphans():
        tree = ProcessTree("tree")
        command = "(setsid sh -c 'echo $$ > met' &) > /dev/null 2>&1; exec sleep 600"
        process = tree.start(("sh", "-c", command), tmp_path, ENV, stdin=False)
        pid = int((tmp_path / "met").read_text())
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        with reaping_adopted():
            assert not psutil.pid_exists(pid)
        tree.end()
        tree.reap()
    for stream in (process.stdout, process.stderr):
        assert stream
        stream.close()


def test_without_adoption_nothing_is_reaped() -> None:
    """Outside of `adopting_orphans`, children in their own sessions belong to others; the handler is put back."""
    before = signal.getsignal(signal.SIGCHLD)
    with reaping_adopted():
        child = subprocess.Popen(("sh", "-c", "exit 5"), start_new_session=True)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert child.wait() == 5
    assert signal.getsignal(signal.SIGCHLD) == before
