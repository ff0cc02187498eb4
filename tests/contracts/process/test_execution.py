import os
import resource
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from pytest_subprocess import FakeProcess

from tests.contracts.process.fake_tree import FakeTree
from tests.contracts.process.unruly import unruly
from turngate.model import Ended
from turngate.process import execution
from turngate.process.execution import ProcessOutcome, ProcessRequest, Stdin, Stop, run
from turngate.process.family import is_alive
from turngate.process.sessions import Leftover
from turngate.process.tree import ProcessTree

MEBI = 2**20
BURNT = 0.36  # seconds of CPU time that `burn` uses at least, as the kernel rounds user and system time down
ENV = {"PATH": os.defpath}


def shell(script: str, *arguments: str, **options: object) -> ProcessRequest:
    """Return the request that runs a shell command."""
    return ProcessRequest(("sh", "-c", script, "sh", *arguments), Path("/"), ENV, **options)  # type: ignore[arg-type]


class Clock:
    """A stand-in for the module `time` of a run, which a test sets forward instead of waiting."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def monotonic(self) -> float:
        """Return the seconds of the real clock, and those by which this one was set forward."""
        return time.monotonic() + self.ahead


@pytest.fixture(name="clock")
def _clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Let runs read a clock that a test can set forward."""
    clock = Clock()
    monkeypatch.setattr(execution, "time", clock)
    return clock


def run_until_ready(request: ProcessRequest) -> ProcessOutcome:
    """Run, and stop at the first output on stdout."""
    stop = Stop()
    return run(request, stop=stop, on_output=lambda name, _: stop.set() if name == "stdout" else None)


def test_exit_code_and_streams() -> None:
    """The exit code and both streams are returned separately."""
    outcome = run(shell("echo out; echo err >&2; exit 7"))
    assert (outcome.ended, outcome.exit_code) == (Ended.EXIT, 7)
    assert (outcome.stdout, outcome.stderr, outcome.dropped) == (b"out\n", b"err\n", 0)
    assert outcome.leftovers == ()
    assert 0 < outcome.seconds < 60


def test_arguments_are_not_read_by_a_shell() -> None:
    """Arguments reach the process unchanged, without a shell."""
    assert run(shell('printf "%s" "$1"', "$(id) `id` ; * 'x\n")).stdout == b"$(id) `id` ; * 'x\n"


def test_environment_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process gets only the request's environment and the tag."""
    monkeypatch.setenv("SECRET", "x")
    request = ProcessRequest(("env",), Path("/"), {**ENV, "A": "b"})
    names = {line.partition(b"=")[0] for line in run(request).stdout.splitlines()}
    assert names == {b"PATH", b"A", b"TURNGATE_RUN"}


def test_tag_of_an_enclosing_run_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A nested run has both tags, so the outer run finds the processes of the inner one."""
    monkeypatch.setenv("TURNGATE_RUN", "/outer")
    assert run(shell("echo $TURNGATE_RUN")).stdout.startswith(b"/outer/")


def test_working_directory(tmp_path: Path) -> None:
    """The process starts in the request's directory."""
    assert run(ProcessRequest(("pwd", "-P"), tmp_path, ENV)).stdout == f"{tmp_path.resolve()}\n".encode()


def test_input_is_written_whole() -> None:
    """A megabyte of input comes back from cat unchanged."""
    data = bytes(range(256)) * 4096
    assert run(ProcessRequest(("cat",), Path("/"), ENV, stdin=data)).stdout == data


def test_empty_input_is_closed() -> None:
    """An empty input is closed at once."""
    assert run(ProcessRequest(("cat",), Path("/"), ENV, stdin=b"")).exit_code == 0


def test_unread_input_is_no_error() -> None:
    """A process that exits without reading a megabyte of input ends normally."""
    outcome = run(shell("exit 0", stdin=b"x" * MEBI))
    assert (outcome.ended, outcome.exit_code) == (Ended.EXIT, 0)


def test_closed_stdin_ends_at_once() -> None:
    """Reading a closed stdin returns its end at once."""
    assert run(unruly("read")).stdout == b"reading\nend of input\n"


def test_open_stdin_stays_open() -> None:
    """Reading an open stdin to its end hangs until the deadline."""
    outcome = run(unruly("read", stdin=Stdin.OPEN, timeout=0.5))
    assert outcome.ended is Ended.TIMEOUT
    assert outcome.exit_code == -signal.SIGTERM
    assert b"end of input" not in outcome.stdout


def test_bytes_are_not_decoded() -> None:
    """Output that is not UTF-8 is returned as it was written."""
    assert run(shell(r"printf '\377\000\200'")).stdout == b"\xff\x00\x80"


def test_death_by_signal_is_negative() -> None:
    """After death by a signal, the exit code is the negative signal number."""
    outcome = run(unruly("die"))
    assert (outcome.ended, outcome.exit_code) == (Ended.EXIT, -signal.SIGKILL)


def test_process_that_stays_after_its_work_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once its listener says that the work is done, the process has only the exit limit left, not the deadline."""
    monkeypatch.setattr(execution, "EXIT_LIMIT", 0.3)
    outcome = run(shell("echo done; sleep 60", timeout=60.0), on_output=lambda _, chunk: chunk == b"done\n")
    assert (outcome.ended, outcome.exit_code, outcome.stdout) == (Ended.LINGERED, -signal.SIGTERM, b"done\n")
    assert outcome.exit_seconds is not None
    assert 0.3 <= outcome.exit_seconds < 10


@pytest.mark.parametrize("limit, slow_exit", [(0.0, 60.0), (60.0, 0.0)])
def test_exit_may_take_longer_where_everything_is_slow(
    monkeypatch: pytest.MonkeyPatch, limit: float, slow_exit: float
) -> None:
    """The exit limit, or what the caller allows for a slow exit, counts, whichever is more."""
    monkeypatch.setattr(execution, "EXIT_LIMIT", limit)
    outcome = run(shell("echo done; sleep 0.2"), on_output=lambda *_: True, slow_exit=lambda: slow_exit)
    assert (outcome.ended, outcome.exit_code) == (Ended.EXIT, 0)


def test_process_that_exits_after_its_work_is_timed(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit limit replaces even a deadline that would come first."""

    def received(*_: object) -> bool:
        clock.ahead = 200.0
        return True

    monkeypatch.setattr(execution, "EXIT_LIMIT", 60.0)
    outcome = run(shell("echo done; sleep 0.2", timeout=100.0), on_output=received)
    assert (outcome.ended, outcome.exit_code) == (Ended.EXIT, 0)
    assert outcome.exit_seconds is not None
    assert 0.1 < outcome.exit_seconds < 60


def test_an_exit_before_the_deadline_counts_although_it_is_told_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a stop of turngate itself, such as by Ctrl-Z."""
    exited, looked = threading.Event(), threading.Event()
    whole_wait, whole_look = ProcessTree.wait, ProcessTree.has_exited

    def wait(tree: ProcessTree) -> None:
        whole_wait(tree)
        exited.set()
        assert looked.wait(60)

    def has_exited(tree: ProcessTree) -> bool:
        assert exited.wait(60)
        found = whole_look(tree)
        looked.set()
        return found

    monkeypatch.setattr(ProcessTree, "wait", wait)
    monkeypatch.setattr(ProcessTree, "has_exited", has_exited)
    outcome = run(shell("exit 3", timeout=0.0))
    assert (outcome.ended, outcome.exit_code) == (Ended.EXIT, 3)


def test_process_whose_work_goes_on_is_not_ended(clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the listener takes back that the work is done, the deadline applies again and the exit isn't timed."""
    said: list[bytes] = []

    def received(_stream: str, chunk: bytes) -> bool:
        said.append(chunk)
        if len(said) > 1:
            clock.ahead = 100.0
        (tmp_path / "heard").touch()
        return len(said) == 1

    monkeypatch.setattr(execution, "EXIT_LIMIT", 60.0)
    script = 'echo done; until [ -e "$1" ]; do sleep 0.01; done; echo more; sleep 0.2'
    outcome = run(shell(script, str(tmp_path / "heard"), timeout=500.0), on_output=received)
    assert said == [b"done\n", b"more\n"]
    assert (outcome.ended, outcome.exit_code, outcome.exit_seconds) == (Ended.EXIT, 0, None)


def test_flood_is_bounded() -> None:
    """Of 200 MB of output the first megabyte is kept and the rest counted, with little memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcome = run(unruly("flood", "200", max_output=MEBI))
    assert outcome.stdout == b"x" * MEBI
    assert outcome.dropped == 199 * MEBI
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40 * 1024


def test_output_is_told_as_it_arrives() -> None:
    """The callback gets each chunk while the process runs, including chunks that aren't kept."""
    seen: list[tuple[str, bytes]] = []
    stop = Stop()

    def on_output(name: str, chunk: bytes) -> None:
        seen.append((name, chunk))
        if len(seen) == 2:
            stop.set()

    outcome = run(unruly("idle", max_output=0), stop=stop, on_output=on_output)
    assert {name for name, _ in seen} == {"stdout", "stderr"}
    assert (outcome.ended, outcome.stdout) == (Ended.STOPPED, b"")
    assert outcome.dropped == sum(len(chunk) for _, chunk in seen)


def test_failing_callback_ends_the_process() -> None:
    """If the caller's callback raises, the process is ended and run raises the exception."""
    pids: list[int] = []

    def fail(name: str, chunk: bytes) -> None:
        if name == "stdout":
            pids.append(int(chunk))
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        run(unruly("idle"), on_output=fail)
    assert not psutil.pid_exists(pids[0])


def test_callback_that_fails_late_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the callback raises after the process has exited, run still raises the exception."""
    exited = threading.Event()

    class Observed(ProcessTree):
        def settle(self) -> tuple[Leftover, ...]:
            exited.set()
            return super().settle()

    def fail(_name: str, _chunk: bytes) -> None:
        assert exited.wait(60)
        raise LookupError("late")

    monkeypatch.setattr(execution, "ProcessTree", Observed)
    with pytest.raises(LookupError, match="late"):
        run(shell("echo"), on_output=fail)


def test_stop_that_was_set_before_starts_nothing(tmp_path: Path) -> None:
    """If the stop is already set, the process is not started."""
    stop = Stop()
    stop.set()
    outcome = run(shell("touch $1", str(tmp_path / "started")), stop=stop)
    assert (outcome.ended, outcome.exit_code) == (Ended.STOPPED, None)
    assert stop.is_set()
    assert not list(tmp_path.iterdir())


@pytest.mark.processes
def test_stop_works_from_a_signal_handler() -> None:
    """A signal handler can stop the run while its own thread waits in it."""
    stop = Stop()
    before = signal.signal(signal.SIGUSR1, lambda *_: stop.set())
    try:
        outcome = run(unruly("idle"), stop=stop, on_output=lambda *_: os.kill(os.getpid(), signal.SIGUSR1))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert outcome.ended is Ended.STOPPED


@pytest.mark.processes
def test_interrupt_ends_the_process() -> None:
    """A KeyboardInterrupt leaves run only after the process has ended."""
    pids: list[int] = []

    def interrupt(name: str, chunk: bytes) -> None:
        if name == "stdout":
            pids.append(int(chunk))
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(unruly("idle"), on_output=interrupt)
    assert not psutil.pid_exists(pids[0])


@pytest.mark.processes
def test_interrupt_before_everything_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt between starting two threads leaves neither the process nor a pipe open."""
    run(shell("exit 0"))
    before = threading.active_count(), set(Path("/proc/self/fd").iterdir())
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        if thread.name == "turngate-stderr":
            raise KeyboardInterrupt
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(unruly("idle", stdin=b"x"))
    assert (threading.active_count(), set(Path("/proc/self/fd").iterdir())) == before


def test_one_stop_ends_every_run() -> None:
    """One stop shared by several runs ends all of them."""
    stop = Stop()
    all_ready = threading.Barrier(4, action=stop.set)
    pids: list[int] = []

    def on_output(name: str, chunk: bytes) -> None:
        if name == "stdout":
            pids.append(int(chunk))
            all_ready.wait(60)

    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(run, unruly("idle"), stop=stop, on_output=on_output) for _ in range(4)]
        outcomes = [future.result(60) for future in running]
    assert {outcome.ended for outcome in outcomes} == {Ended.STOPPED}
    assert len(pids) == 4
    assert not any(is_alive(pid) for pid in pids)


def test_many_at_once() -> None:
    """Parallel runs neither mix their output nor end each other's processes."""

    def echo(number: int) -> ProcessOutcome:
        return run(shell("cat; exit $1", str(number), stdin=b"%d" % number * 1000))

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(echo, range(60)))
    assert [outcome.exit_code for outcome in outcomes] == list(range(60))
    assert all(outcome.stdout == b"%d" % number * 1000 for number, outcome in enumerate(outcomes))
    assert {outcome.leftovers for outcome in outcomes} == {()}


@pytest.mark.parametrize("stdin", [Stdin.CLOSED, Stdin.OPEN, b"x" * MEBI])
def test_nothing_is_kept_open(stdin: Stdin | bytes) -> None:
    """A run leaves no threads and no open files."""
    run(shell("exit 0"))
    before = threading.active_count(), set(Path("/proc/self/fd").iterdir())
    run(shell("exit 0", stdin=stdin))
    assert (threading.active_count(), set(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.long
def test_cpu_time_of_reaped_children_counts() -> None:
    """CPU time includes that of children that the process reaped."""
    assert run(unruly("burn-in-child", "reap")).cpu_seconds >= BURNT


@pytest.mark.long
def test_cpu_time_of_ended_children_counts() -> None:
    """CPU time includes that of children ended together with the process."""
    assert run_until_ready(unruly("keep", "warm-child")).cpu_seconds >= BURNT


@pytest.mark.long
def test_cpu_time_of_children_counts_once() -> None:
    """CPU time of a child that was seen alive, and then reaped by the process, is counted once."""
    assert BURNT <= run_until_ready(unruly("burn-in-child", "keep")).cpu_seconds < 2 * BURNT


@pytest.mark.long
def test_cpu_time_of_leftovers_counts() -> None:
    """CPU time includes that of children that outlived the process."""
    assert run(unruly("leave", "warm-child")).cpu_seconds >= BURNT


REQUEST = ProcessRequest(("engine", "exec"), Path("/"), {}, stdin=b"prompt")


def test_run_reads_a_fake_process(fp: FakeProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fake process with in-memory pipes runs like a real one."""
    fp.register(["engine", "exec"], stdout=b"out", stderr=b"err", returncode=5)
    monkeypatch.setattr(execution, "ProcessTree", FakeTree)
    outcome = run(REQUEST)
    assert (outcome.ended, outcome.exit_code) == (Ended.EXIT, 5)
    assert (outcome.stdout, outcome.stderr) == (b"out", b"err")


def test_fake_process_is_stopped_through_its_tree(fp: FakeProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop signals only the fake process, and no real one."""
    stop, reported = Stop(), threading.Event()

    def hang(_: object) -> None:
        stop.set()
        assert reported.wait(60)

    recorder = fp.register(
        ["engine", "exec"],
        callback=hang,
        signal_callback=lambda *_: reported.set(),
    )
    monkeypatch.setattr(execution, "ProcessTree", FakeTree)
    assert run(REQUEST, stop=stop).ended is Ended.STOPPED
    assert recorder.first_call is not None
    assert recorder.first_call.received_signals() == (signal.SIGTERM,)


@pytest.mark.long
def test_a_slow_reader_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow callback gets all output, even if it takes longer than the readers' time limit."""
    monkeypatch.setattr(execution, "_DRAIN_GRACE", 0.1)
    received: list[bytes] = []

    def on_output(_name: str, chunk: bytes) -> None:
        time.sleep(0.4)
        received.append(chunk)

    run(shell("echo first; sleep 0.1; echo last"), on_output=on_output)
    assert b"".join(received) == b"first\nlast\n"


def test_a_stop_does_not_wait_for_a_slow_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop doesn't wait for a callback that is slow to take output."""
    monkeypatch.setattr(execution, "_DRAIN_GRACE", 0.1)
    stop, stuck = Stop(), threading.Event()

    def on_output(_name: str, _chunk: bytes) -> None:
        stop.set()
        stuck.wait(60)

    assert run(shell("echo x; sleep 60"), stop=stop, on_output=on_output).ended is Ended.STOPPED
    stuck.set()


def test_a_deadline_does_not_wait_for_a_slow_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the deadline, a callback that is slow to take output holds up nobody."""
    monkeypatch.setattr(execution, "_DRAIN_GRACE", 0.1)
    returned, was_late = threading.Event(), list[bool]()

    def on_output(_name: str, _chunk: bytes) -> None:
        was_late.append(not returned.wait(10))

    assert run(shell("echo x; exec sleep 60", timeout=0.2), on_output=on_output).ended is Ended.TIMEOUT
    returned.set()
    assert not was_late
