import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import psutil
import pytest

from tests.contracts.process.unruly import unruly
from tests.fakes.hopper import Hopper, hopper
from turngate.errors import MachineError
from turngate.model import Ended
from turngate.process import execution, family, sessions, tree
from turngate.process.execution import ProcessOutcome, ProcessRequest, Stop, run
from turngate.process.family import Family, Noted, end_orphans, is_alive
from turngate.process.sessions import adopting_orphans
from turngate.process.tree import ProcessTree

pytestmark = pytest.mark.processes

FOUND_AFTERWARDS = ["child", "deaf-child", "setsid-child", "bare-child", "double-fork"]


def pids(outcome: ProcessOutcome) -> list[int]:
    """Return the pids that the processes of a run have printed."""
    return [int(line) for line in outcome.stdout.split()]


def run_until(lines: int, *verb: str) -> ProcessOutcome:
    """Run a verb and stop it once this many lines are on stdout."""
    stop, seen = Stop(), bytearray()

    def on_output(name: str, chunk: bytes) -> None:
        if name == "stdout":
            seen.extend(chunk)
        if seen.count(b"\n") == lines:
            stop.set()

    return run(unruly(*verb), stop=stop, on_output=on_output)


def test_deaf_process_is_killed() -> None:
    """A process that ignores SIGTERM is killed after the grace period."""
    outcome = run_until(1, "deaf")
    assert (outcome.ended, outcome.exit_code) == (Ended.STOPPED, -signal.SIGKILL)


def test_process_without_its_first_thread_is_reaped() -> None:
    """A process whose first thread has ended looks like a zombie; it is still killed and has an exit code."""
    outcome = run_until(1, "headless")
    assert (outcome.ended, outcome.exit_code) == (Ended.STOPPED, -signal.SIGKILL)


def test_polite_process_has_its_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that exits on SIGTERM keeps its exit code and its last output."""
    monkeypatch.setattr(family, "TERM_GRACE", 30)
    outcome = run_until(1, "polite")
    assert (outcome.ended, outcome.exit_code) == (Ended.STOPPED, 3)
    assert outcome.stdout.endswith(b"\nbye\n")


@pytest.mark.parametrize("kind", [*FOUND_AFTERWARDS, "bare-setsid-child"])
def test_stop_ends_the_whole_tree(kind: str) -> None:
    """A stop ends every process of the tree, and reports none as left over."""
    outcome = run_until(2, "keep", kind)
    assert outcome.ended is Ended.STOPPED
    assert len(pids(outcome)) == 2
    assert not any(is_alive(pid) for pid in pids(outcome))
    assert outcome.leftovers == ()


@pytest.mark.parametrize("kind", FOUND_AFTERWARDS)
def test_what_outlives_the_process_is_ended_and_told(kind: str) -> None:
    """Processes that outlive the main one are reported and ended, and don't keep its pipes open."""
    outcome = run(unruly("leave", kind))
    assert (outcome.ended, outcome.exit_code) == (Ended.EXIT, 0)
    [pid] = pids(outcome)
    [leftover] = outcome.leftovers
    assert (leftover.pid, leftover.survived) == (pid, False)
    assert leftover.argv[-1] in {"idle", "deaf"}
    assert not is_alive(pid)


HOPS = "import sys; sys.path.insert(0, {root!r}); from tests.fakes import hopper; hopper.leave(*{arguments!r}); {then}"
HANGS = "print(1, flush=True); import signal; signal.pause()"


def hopping(hops: Hopper, *kinds: str, then: str = "", tag: str = "") -> ProcessRequest:
    """Return the request of a process that leaves a hopper."""
    code = HOPS.format(root=str(Path(__file__).parents[3]), arguments=(str(hops.fifo), *kinds), then=then)
    return ProcessRequest((sys.executable, "-ISc", code), cwd=Path("/"), env={"PATH": os.defpath}, tag=tag)


@pytest.mark.parametrize("adopts, kinds", [*product([False, True], [(), ("deaf",)]), (True, ("bare",))])
def test_what_goes_on_in_new_processes_and_sessions_is_ended(
    tmp_path: Path, *, adopts: bool, kinds: tuple[str, ...]
) -> None:
    """A process that forks and changes its session every 10 ms is found, reported and ended."""
    if adopts and sys.platform != "linux":
        pytest.skip("only Linux can adopt processes")
    with hopper(tmp_path) as hops, adopting_orphans() if adopts else nullcontext():
        outcome = run(hopping(hops, *kinds))
        assert (outcome.ended, outcome.exit_code) == (Ended.EXIT, 0), outcome.stderr
        assert hops.is_gone()
    assert outcome.leftovers
    assert not any(leftover.survived for leftover in outcome.leftovers)


def test_what_goes_on_in_new_processes_is_told_although_each_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that has gone on before it could be described is told once one of its followers is caught."""
    measure = family._cpu

    def measured(processes: list[psutil.Process]) -> float:
        cpu = measure(processes)
        family.wait_gone(processes, float("inf"))
        return cpu

    monkeypatch.setattr(family, "_cpu", measured)
    with hopper(tmp_path) as hops:
        outcome = run(hopping(hops))
        assert hops.is_gone()
    [leftover] = outcome.leftovers
    assert not leftover.survived


def test_a_stop_ends_what_goes_on_in_new_processes(tmp_path: Path) -> None:
    """The end of a tree from outside ends such a process, too."""
    stop = Stop()
    with hopper(tmp_path) as hops:
        outcome = run(hopping(hops, then=HANGS), stop=stop, on_output=lambda *_: stop.set())
        assert (outcome.ended, outcome.leftovers) == (Ended.STOPPED, ()), outcome.stderr
        assert hops.is_gone()


def test_a_process_that_goes_on_is_told_if_it_can_not_be_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within bounded time the run returns, and says what is left."""
    with hopper(tmp_path) as hops:
        with monkeypatch.context() as powerless:
            powerless.setattr(family, "TERM_GRACE", 0.02)
            powerless.setattr(family, "KILL_GRACE", 0.02)
            powerless.setattr(family, "HUNT", 0.02)
            powerless.setattr(psutil.Process, "send_signal", lambda *_: None)
            outcome = run(hopping(hops, tag=hops.tag))
        assert any(leftover.survived for leftover in outcome.leftovers)
        assert not hops.is_gone(0)
        assert end_orphans([Noted(hops.tag)]) == ()
        assert hops.is_gone()


def test_child_that_is_about_to_end_is_no_leftover(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that ends just after the process is waited for, with its output."""
    monkeypatch.setattr(tree, "SETTLE_GRACE", 30)
    outcome = run(unruly("late"))
    assert (outcome.stdout, outcome.leftovers) == (b"late\n", ())


def test_end_of_output_is_not_the_end() -> None:
    """A process that closed its output still runs, until its deadline."""
    # a busy machine may need longer to start it
    for seconds in (0.5, 5.0, 60.0):
        outcome = run(unruly("mute", timeout=seconds))
        assert outcome.ended is Ended.TIMEOUT
        assert outcome.seconds >= seconds
        if outcome.stdout:
            break
    assert outcome.stdout == b"closing\n"


def test_survivor_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that can't be ended is reported as a survivor, and run returns although it holds the pipe."""
    monkeypatch.setattr(family, "KILL_GRACE", 0.02)
    monkeypatch.setattr(execution, "_DRAIN_GRACE", 0.02)
    with monkeypatch.context() as powerless:
        powerless.setattr(psutil.Process, "send_signal", lambda *_: None)
        outcome = run(unruly("leave", "setsid-child"))
    [leftover] = outcome.leftovers
    try:
        assert leftover.survived
        assert is_alive(leftover.pid)
        assert pids(outcome) == [leftover.pid]
    finally:
        os.kill(leftover.pid, signal.SIGKILL)
        for thread in threading.enumerate():
            if thread.name.startswith("turngate-"):
                thread.join()


def test_process_that_cannot_be_ended_has_no_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that outlives SIGKILL is a survivor without an exit code."""
    monkeypatch.setattr(family, "TERM_GRACE", 0.02)
    monkeypatch.setattr(family, "KILL_GRACE", 0.02)
    monkeypatch.setattr(execution, "_DRAIN_GRACE", 0.02)
    trees: list[ProcessTree] = []

    def new_tree(tag: str) -> ProcessTree:
        trees.append(ProcessTree(tag))
        return trees[-1]

    with monkeypatch.context() as powerless:
        powerless.setattr(os, "killpg", lambda *_: None)
        powerless.setattr(execution, "ProcessTree", new_tree)
        outcome = run(unruly("idle", timeout=0.5))
    [survivor] = outcome.leftovers
    os.kill(survivor.pid, signal.SIGKILL)
    trees[0].wait()
    assert trees[0].reap()[0] == -signal.SIGKILL
    assert (outcome.ended, outcome.exit_code, survivor.survived) == (Ended.TIMEOUT, None, True)


def test_exit_is_seen_without_waitid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without waitid the exit is still noticed."""
    monkeypatch.delattr(os, "waitid")
    assert run(unruly("die")).exit_code == -signal.SIGKILL


def test_processes_of_other_programs_need_no_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    """If only other programs have started processes in the meantime, Linux tells it without psutil."""
    scan_family, scanned = ProcessTree._family, list[ProcessTree]()

    def family(of: ProcessTree) -> Family:
        scanned.append(of)
        return scan_family(of)

    monkeypatch.setattr(tree, "younger", lambda _: {(os.getppid(), os.getsid(os.getppid()))})
    monkeypatch.setattr(ProcessTree, "_family", family)
    assert run(ProcessRequest(("/bin/cat",), Path.cwd(), {})).ended is Ended.EXIT
    assert bool(scanned) is (sys.platform != "linux")


@pytest.mark.parametrize(
    "ends", [partial(run_until, 2, "keep", "setsid-child"), partial(run, unruly("leave", "child"))]
)
def test_tree_is_ended_even_if_no_descriptor_is_free(
    ends: Callable[[], ProcessOutcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While /proc can't be listed for want of a descriptor, the end of the tree waits; then all of it is ended."""
    list_processes, calls = sessions.pids, list[int]()

    def listed() -> list[int]:
        calls.append(len(calls))
        if calls[-1] in {1, 2}:  # the first call comes before the start
            raise OSError(errno.EMFILE, "Too many open files")
        return list_processes()

    monkeypatch.setattr(sessions, "pids", listed)
    assert not any(is_alive(pid) for pid in pids(ends()))
    assert len(calls) > 3


@pytest.mark.parametrize("pid", [1, 2**22 + 1])
def test_foreign_process_is_refused(pid: int) -> None:
    """A pid that is not a child of ours is rejected before anything is signalled."""
    fake = cast(subprocess.Popen[bytes], SimpleNamespace(pid=pid))
    with pytest.raises(RuntimeError, match=str(pid)):
        ProcessTree("tag").adopt(fake)


def test_a_tree_needs_the_list_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a free file descriptor nothing is started, and the error says what to do."""

    def fail() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(tree, "sessions", fail)
    with pytest.raises(MachineError, match="processes can't be listed: Too many open files") as failed:
        run(unruly("deaf"))
    assert failed.value.hint == "raise the limit of open files (ulimit -n)"


def test_a_process_that_can_not_be_looked_at_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If no file descriptor is free after the start, the error is raised and the process doesn't stay."""
    started = list[int]()

    def refuse(pid: int) -> bool:
        started.append(pid)
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("turngate.process.tree.is_child", refuse)
    with pytest.raises(OSError, match="Too many open files"):
        ProcessTree("tag").start(["sleep", "600"], tmp_path, dict(os.environ), stdin=False)
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)
