"""Processes that leave a tree: forked twice, in their own session, with an empty environment."""

import errno
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen

import psutil
import pytest

from turngate.process import sessions
from turngate.process.execution import ProcessRequest, run
from turngate.process.family import is_alive
from turngate.process.sessions import adopting_orphans, reap_adopted
from turngate.process.tree import ProcessTree

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(
        sys.platform != "linux",
        reason="PR_SET_CHILD_SUBREAPER exists only on Linux; docs/promises.md says what remains elsewhere",
    ),
]
LEAVES = """
import os, resource, time
{before}
if not os.fork():
    if {once} or not os.fork():
        os.setsid()
        if {once} or not os.fork():
            with open("part", "w") as file:
                file.write(str(os.getpid()))
            os.rename("part", "pid")
            null = os.open(os.devnull, os.O_RDWR)
            for number in range(3):
                os.dup2(null, number)
            os.execve("/bin/sleep", ["sleep", "600"], {{}})
    os._exit(0)
while not os.path.exists("pid"):
    time.sleep(0.01)
time.sleep({seconds})
"""


OTHER_MARK = "resource.setrlimit(resource.RLIMIT_RTTIME, (2**41, -1))"  # as another turngate in between does


def leaving(*, once: bool = False, seconds: float = 0.2, before: str = "") -> tuple[str, ...]:
    """Return the command of a process that leaves another one; `once`: with one fork, as `setsid --fork`.

    It runs the code `before` first.
    """
    return sys.executable, "-c", LEAVES.format(once=once, seconds=seconds, before=before)


@contextmanager
def running(tmp_path: Path) -> Iterator[ProcessTree]:
    """Start a tree that stays alive, and end and reap it after the block."""
    tree = ProcessTree("older")
    process = tree.start(("/bin/sleep", "600"), tmp_path, {}, stdin=False)
    time.sleep(0.05)
    try:
        yield tree
    finally:
        tree.end()
        tree.reap()
        for stream in (process.stdout, process.stderr):
            assert stream
            stream.close()


@pytest.mark.parametrize("once", [True, False])
def test_a_process_that_left_is_ended_with_the_tree(tmp_path: Path, *, once: bool) -> None:
    """The process is reported as left over, ended, and reaped."""
    with adopting_orphans():
        outcome = run(ProcessRequest(leaving(once=once), tmp_path, {}))
    pid = int((tmp_path / "pid").read_text())
    assert [left.pid for left in outcome.leftovers] == [pid]
    assert not psutil.pid_exists(pid)


def test_nothing_is_adopted_any_more_afterwards(tmp_path: Path) -> None:
    """After the block, orphans go to the previous parent again and are not ended."""
    with adopting_orphans():
        pass
    outcome = run(ProcessRequest(leaving(), tmp_path, {}))
    left = psutil.Process(int((tmp_path / "pid").read_text()))
    assert (outcome.leftovers, left.ppid() != os.getpid()) == ((), True)
    left.kill()


def test_a_process_that_left_is_ended_with_its_own_tree(tmp_path: Path) -> None:
    """While an older tree runs too, the process is ended with the tree that left it, and reported there."""
    with adopting_orphans(), running(tmp_path):
        outcome = run(ProcessRequest(leaving(), tmp_path, {}))
        pid = int((tmp_path / "pid").read_text())
        assert [left.pid for left in outcome.leftovers] == [pid]
        assert not psutil.pid_exists(pid)


def test_what_two_trees_may_have_left_is_ended_with_the_later_one(tmp_path: Path) -> None:
    """While an older tree runs too, a process with the mark of another turngate stays until the later tree ends."""
    with adopting_orphans():
        with running(tmp_path):
            assert run(ProcessRequest(leaving(before=OTHER_MARK), tmp_path, {})).leftovers == ()
            left = psutil.Process(int((tmp_path / "pid").read_text()))
            assert is_alive(left)
        assert not psutil.pid_exists(left.pid)


def test_a_process_that_no_tree_started_is_not_ended(tmp_path: Path) -> None:
    """A program that this one replaced may have had children of its own: what these leave isn't touched."""
    code = f"input()\n{LEAVES.format(once=False, seconds=0, before='')}"
    stranger = Popen((sys.executable, "-c", code), stdin=PIPE, cwd=tmp_path, start_new_session=True)
    with adopting_orphans():
        with running(tmp_path):
            stranger.communicate(b"\n")
            left = psutil.Process(int((tmp_path / "pid").read_text()))
            assert left.ppid() == os.getpid()
        assert is_alive(left)
        left.kill()
        left.wait()


def test_a_process_of_this_session_is_no_orphan(tmp_path: Path) -> None:
    """Other children in the program's own session are neither ended nor reaped."""
    with adopting_orphans():
        pid = os.posix_spawn("/bin/sleep", ["sleep", "600"], {})
        run(ProcessRequest(("/bin/true",), tmp_path, {}))
        beside = psutil.Process(pid)
        assert is_alive(beside)
        beside.kill()
        run(ProcessRequest(("/bin/true",), tmp_path, {}))
        assert os.waitpid(pid, 0)[0] == pid


def test_a_main_process_that_was_just_started_is_no_orphan(tmp_path: Path) -> None:
    """Parallel trees don't end each other's main processes."""
    request = ProcessRequest(("/bin/sh", "-c", "sleep 0.05; exit 7"), tmp_path, {"PATH": "/usr/bin:/bin"})
    with adopting_orphans(), ThreadPoolExecutor(8) as pool:
        outcomes = [*pool.map(run, [request] * 60)]
    assert {(outcome.exit_code, outcome.leftovers) for outcome in outcomes} == {(7, ())}


def test_reaping_fails_no_turn_if_no_descriptor_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """What can't be listed now is left for the next time."""

    def none_free() -> list[int]:
        raise OSError(errno.EMFILE, "Too many open files")

    with adopting_orphans(), subprocess.Popen(("/bin/true",), start_new_session=True) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        with monkeypatch.context() as exhausted:
            exhausted.setattr(sessions, "pids", none_free)
            reap_adopted(())
        assert psutil.pid_exists(child.pid)
        reap_adopted(())
        assert not psutil.pid_exists(child.pid)
