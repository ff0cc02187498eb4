"""Runs one process to its end, within time and memory limits, and ends all processes that it started."""

import queue
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from enum import Enum, auto
from pathlib import Path

from msgspec import Struct

from turngate.model import Ended
from turngate.process.guard_proof import GuardProof, unguarded
from turngate.process.output_file import OutputFile
from turngate.process.pipes import Pipes
from turngate.process.sessions import Leftover
from turngate.process.tree import ProcessTree

EXIT_LIMIT = 10.0  # seconds that an engine may stay alive after the terminal event of its turn
_DRAIN_GRACE = 5.0  # seconds for the readers once the tree has ended

# the events that a run waits for: the time of the exit, a stop, an error in `on_output`, or whether the work is done
_Events = queue.SimpleQueue[float | Ended | Exception | bool]
OnOutput = Callable[[str, bytes], bool | None]


class Stdin(Enum):
    """Standard input without content: closed, or open until the end without any data."""

    CLOSED = auto()
    OPEN = auto()


class ProcessRequest(Struct, frozen=True):
    """A process to run. `env` is complete: nothing is inherited. `stdin` as bytes is written, then closed.

    `timeout` is in seconds of wall time. `EXIT_LIMIT` replaces it once `on_output` has reported that the work is done.
    Of each stream, `max_output` bytes are kept. `tag` (empty: a new one) marks every process of the tree, so that
    `end_tagged` can find them if this program dies. It has no slash. `proof` (empty: none is needed) is the variable
    that tells a guard where to prove that it has an effect; `stdin` is written only then. `stdout_file`: stdout is a
    file instead of a pipe, for a program that exits before a pipe has taken all that it prints.

    >>> from pathlib import Path
    >>> turngate.ProcessRequest(("codex", "--version"), Path("/work"), {"PATH": "/bin"}).timeout
    120.0
    """

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    stdin: bytes | Stdin = Stdin.CLOSED
    timeout: float = 120.0
    max_output: int = 64 * 2**20
    tag: str = ""
    proof: str = ""
    stdout_file: bool = False


class ProcessOutcome(Struct, frozen=True):
    """How a process ended.

    `ended` says what ended it. `stdout` and `stderr` are what it printed, up to the limits of the request; `dropped`
    counts the bytes beyond them, of both streams. `exit_code` is negative for a signal, and None if the process was
    never started (a stop came first) or could not be reaped. `seconds` is the wall time until its end. `cpu_seconds` is
    the user and system time of the whole tree, as far as the kernel accounts for it. `exit_seconds` is the time from
    the end of its work until it exited or was terminated (None: it did not report that its work was done). `leftovers`
    are the processes that outlived the main one and were terminated.

    >>> import sys
    >>> from pathlib import Path
    >>> from turngate.process.execution import run
    >>> run(turngate.ProcessRequest((sys.executable, "-c", "print(1)"), Path.cwd(), {})).stdout
    b'1\\n'
    """

    ended: Ended
    exit_code: int | None
    stdout: bytes
    stderr: bytes
    dropped: int
    seconds: float
    cpu_seconds: float
    leftovers: tuple[Leftover, ...]
    exit_seconds: float | None = None


class Stop:
    """Ends the process tree of every run that uses it. Once set, it stays set.

    >>> stop = turngate.Stop()
    >>> stop.set()
    >>> stop.is_set()
    True
    """

    def __init__(self) -> None:
        self._set = False
        self._runs: tuple[_Events, ...] = ()
        self._lock = threading.Lock()

    def set(self) -> None:
        """End running processes and start no more; safe in any thread and in signal handlers."""
        # takes no lock, since a handler may have interrupted its holder
        self._set = True
        for events in self._runs:
            events.put(Ended.STOPPED)

    def is_set(self) -> bool:
        """Return whether `set` was called."""
        return self._set

    def wait(self, seconds: float) -> bool:
        """Sleep, and return whether `set` was called."""
        time.sleep(seconds)
        return self._set

    @contextmanager
    def telling(self, events: _Events) -> Iterator[bool]:
        """Put the stop into `events` while the block runs; yield whether it was already set."""
        with self._lock:
            self._runs += (events,)
        try:
            yield self._set
        finally:
            with self._lock:
                self._runs = tuple(run for run in self._runs if run is not events)


def run(
    request: ProcessRequest,
    *,
    stop: Stop | None = None,
    on_output: OnOutput | None = None,
    on_start: Callable[[int], None] | None = None,
    slow_exit: Callable[[], float] | None = None,
) -> ProcessOutcome:
    """Run `request` and return when the process and all its descendants have ended.

    `on_output` gets "stdout" or "stderr" and each chunk as it arrives, including dropped ones: from other threads, one
    call at a time. It returns True when the process has done its work. The process must then exit within `EXIT_LIMIT`,
    unless a later call returns something else. If `slow_exit` then returns more seconds than `EXIT_LIMIT`, these count.
    `on_output` should be quick, since the process waits for it. An exception in it ends the process and is raised here.
    `on_start` gets the process id, once, before any output is read. An exception in it also ends the process.
    MachineError or UsageError explains why the process could not be started. RefusedError: it got no input, because it
    gave no proof of its guard.
    """
    events: _Events = queue.SimpleQueue()
    stop = stop or Stop()
    with stop.telling(events) as already_set, ExitStack() as cleanup:
        if already_set:
            return ProcessOutcome(Ended.STOPPED, None, b"", b"", 0, 0.0, 0.0, ())
        proof = cleanup.enter_context(GuardProof(request.proof)) if request.proof else None
        env = {**request.env, **(proof.env if proof else {})}
        tree = ProcessTree(request.tag or uuid.uuid4().hex)
        file = cleanup.enter_context(OutputFile()) if request.stdout_file else None
        has_input, stdout = request.stdin is not Stdin.CLOSED, file.fileno() if file else None
        start = time.monotonic()
        process = tree.start(request.argv, request.cwd, env, stdin=has_input, stdout=stdout)
        data = request.stdin if isinstance(request.stdin, bytes) else None
        pipes = Pipes(process, data, request.max_output, _telling(on_output, events), events.put, proof, file)
        ended = Ended.EXIT
        try:
            if on_start:
                on_start(process.pid)
            pipes.start()
            ended, end, exit_seconds, leftovers = _watch(tree, events, start + request.timeout, slow_exit)
        except BaseException:
            tree.end()
            raise
        finally:
            exit_code, cpu_seconds = tree.reap()
            pipes.close(_DRAIN_GRACE, hurries=lambda: stop.is_set() or ended is Ended.TIMEOUT)
        while not events.empty():
            if isinstance(late := events.get(), Exception):
                raise late
        if proof and not proof.given and ended is Ended.EXIT:
            raise unguarded(request.argv[0], f"exited with {exit_code} before its guard had an effect")
        return ProcessOutcome(
            ended,
            exit_code,
            pipes.kept("stdout"),
            pipes.kept("stderr"),
            pipes.dropped,
            seconds=end - start,
            cpu_seconds=cpu_seconds,
            leftovers=leftovers,
            exit_seconds=exit_seconds,
        )


def _telling(on_output: OnOutput | None, events: _Events) -> OnOutput:
    """Put an event into `events` when `on_output` changes its answer on whether the work is done."""
    done = False

    def received(stream: str, chunk: bytes) -> None:
        nonlocal done
        before, done = done, bool(on_output and on_output(stream, chunk))
        if done is not before:
            events.put(done)

    return received


def _watch(
    tree: ProcessTree, events: _Events, deadline: float, slow_exit: Callable[[], float] | None
) -> tuple[Ended, float, float | None, tuple[Leftover, ...]]:
    """Wait, then end the tree; return what ended it, when, the seconds since its work was done, and the leftovers."""

    def wait() -> None:
        tree.wait()
        events.put(time.monotonic())

    threading.Thread(target=wait, name="turngate-wait", daemon=True).start()
    done_at: float | None = None
    event: float | Ended | Exception | bool = False
    while isinstance(event, bool):
        done_at = time.monotonic() if event else None
        until = done_at + max(EXIT_LIMIT, slow_exit() if slow_exit else 0) if done_at else deadline
        try:
            event = events.get(timeout=min(max(until - time.monotonic(), 0), threading.TIMEOUT_MAX))
        except queue.Empty:
            # if turngate itself was stopped meanwhile, nobody has told of the exit yet
            event = events.get() if tree.has_exited() else Ended.LINGERED if done_at else Ended.TIMEOUT
    if isinstance(event, Exception):
        raise event
    if isinstance(event, Ended):
        ended, leftovers, end = event, tree.end(), time.monotonic()
    else:
        ended, leftovers, end = Ended.EXIT, tree.settle(), event
    return ended, end, max(end - done_at, 0.0) if done_at else None, leftovers
