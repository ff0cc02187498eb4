"""Runs one process to its end, within time and memory limits, and ends all processes that it started.

Threads read its output within the limits and write its input. A turn is such a run whose output is read as it arrives.
The files that a contract supplies to its engine are put where no workspace can reach them: each set has a private
folder in the cache, named by its content. What is there is compared with the contract before each use, because an
engine that acts without asking runs as the user, and could have changed it.
"""

import os
import queue
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from enum import Enum, auto
from pathlib import Path
from typing import IO, cast

from msgspec import Struct

from turngate.argv.build import Invocation
from turngate.argv.environment import engine_environment
from turngate.argv.file_slot import ARTIFACTS, PYTHON, SLOT, digest
from turngate.contract.launch import Guards, Stream
from turngate.errors import MachineError, RefusedError
from turngate.files import default_cache, make_private, read_own, write_atomically
from turngate.model import Ended
from turngate.process.guard_proof import GuardProof, unguarded
from turngate.process.instruction_files import check_instruction_files
from turngate.process.sessions import Leftover
from turngate.process.tree import ProcessTree
from turngate.turn.read import TurnReader, TurnReading


def supplied_folder(files: Mapping[str, str]) -> Path:
    """Return the folder with these files, written first if they are missing or differ.

    MachineError: they can't be written.
    """
    try:
        folder = supplied_root() / digest(files)
        make_private(folder)
        for name, content in files.items():
            if not _holds(folder / name, content):
                write_atomically(folder / name, content, private=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home
        why = f"the files that guard the engine can't be written: {error}"
        raise MachineError(why, "free some disk space, or set XDG_CACHE_HOME to a folder of your own") from error
    return folder


def supplied_root() -> Path:
    """Return the folder of all supplied folders; RuntimeError: there is no home."""
    return default_cache() / "supplied"


def guarded(env: Mapping[str, str], guards: Guards) -> dict[str, str]:
    """Return an environment with the variables that guard an engine, and {files} in them.

    The environment's own values have precedence, except over those that name supplied files: without them, nothing
    would say that the engine runs without its guards.
    """
    return {**guards.env, **env, **{name: value for name, value in guards.env.items() if SLOT in value}}


def _holds(path: Path, content: str) -> bool:
    wanted = content.encode()
    with suppress(OSError, ValueError):
        return read_own(path, len(wanted) + 1) == wanted
    return False


_CHUNK = 65536  # bytes, the capacity of a pipe on Linux
_ATOMIC = 512  # bytes that can be written to an empty pipe without waiting, on every system
_LOOK = 0.1  # seconds between two checks of the reading threads


class Pipes:
    """The pipes of a started process, with a thread for each that needs one.

    `data` is written to its input, which is then closed; with `proof`, only once that is given. If `data` is None, an
    input stays open until `close`. The first `limit` bytes of each output are kept; `dropped` counts the rest.
    `on_output` gets the name of a stream and a chunk, one call at a time. An exception in it ends the reading of that
    stream and is passed to `on_failure`, like the lack of a proof.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        data: bytes | None,
        limit: int,
        on_output: Callable[[str, bytes], object],
        on_failure: Callable[[Exception], None],
        proof: GuardProof | None = None,
    ) -> None:
        self.dropped = 0
        self._kept = {"stdout": bytearray(), "stderr": bytearray()}
        self._limit = limit
        self._on_output = on_output
        self._on_failure = on_failure
        self._one_call = threading.Lock()
        self._deadline = float("inf")
        self._closing = threading.Event()
        self._call_began: float | None = None
        stdout, stderr = cast("IO[bytes]", process.stdout), cast("IO[bytes]", process.stderr)
        self._threads = [
            (stdout, _thread("stdout", self._read, "stdout", stdout)),
            (stderr, _thread("stderr", self._read, "stderr", stderr)),
        ]
        self._idle = process.stdin if data is None else None
        if process.stdin and data is not None:
            self._threads.append((process.stdin, _thread("stdin", self._write, process, data, proof)))

    def kept(self, name: str) -> bytes:
        """Return the bytes kept of a stream."""
        return bytes(self._kept[name])

    def start(self) -> None:
        """Start reading, and writing if there is data."""
        for _, thread in self._threads:
            thread.start()

    def close(self, grace: float, hurries: Callable[[], bool] = lambda: False) -> None:
        """Close the input and wait until both outputs have ended, `grace` seconds at most.

        Time spent in `on_output` does not count unless `hurries`, so that no data that was read is lost.
        """
        self._closing.set()
        if self._idle:
            self._idle.close()
        self._deadline = time.monotonic() + grace
        for stream, thread in self._threads:
            if thread.ident is None:  # interrupted before its start
                stream.close()
            while thread.is_alive() and (left := self._seconds_left(hurries=hurries())) > 0:
                thread.join(min(left, _LOOK))

    def _read(self, name: str, stream: IO[bytes]) -> None:
        kept = self._kept[name]
        try:
            with stream:
                while chunk := stream.read(_CHUNK):
                    with self._one_call:
                        part = chunk[: max(self._limit - len(kept), 0)]
                        kept += part
                        self.dropped += len(chunk) - len(part)
                        self._take_in(name, chunk)
        except Exception as error:  # noqa: BLE001 - it is raised again where run() was called
            self._on_failure(error)

    def _write(self, process: subprocess.Popen[bytes], data: bytes, proof: GuardProof | None) -> None:
        stdin, first = cast("IO[bytes]", process.stdin), 0
        with suppress(BrokenPipeError), stdin:
            if proof is not None:
                guard = proof.wait(self._closing.is_set)
                if guard is None:
                    if not self._closing.is_set():
                        why = "did not go on, and was ended before its guard had an effect"
                        self._on_failure(unguarded(str(cast("Sequence[str]", process.args)[0]), why))
                    return
                # the engine goes on when the guard's pipe ends, and may not wait long for its input
                try:
                    first = stdin.write(data[:_ATOMIC])
                finally:
                    os.close(guard)
            rest = memoryview(data)[first:]
            while rest:
                rest = rest[stdin.write(rest) :]

    def _take_in(self, name: str, chunk: bytes) -> None:
        began = self._call_began = time.monotonic()
        try:
            self._on_output(name, chunk)
        finally:
            self._deadline += time.monotonic() - began
            self._call_began = None

    def _seconds_left(self, *, hurries: bool) -> float:
        began = None if hurries else self._call_began
        return self._deadline - (time.monotonic() if began is None else began)


def _thread(name: str, work: Callable[..., None], *args: object) -> threading.Thread:
    # a daemon, since a leftover that can't be ended may keep the pipe open forever
    return threading.Thread(target=work, args=args, name=f"turngate-{name}", daemon=True)


EXIT_LIMIT = 10.0  # seconds that an engine may stay alive after the terminal event of its turn
_DRAIN_GRACE = 5.0  # seconds for the readers once the tree has ended


class Stdin(Enum):
    """Standard input without content: closed, or open until the end without any data."""

    CLOSED = auto()
    OPEN = auto()


class ProcessRequest(Struct, frozen=True):
    """A process to run. `env` is complete: nothing is inherited. `stdin` as bytes is written, then closed.

    `timeout` is in seconds of wall time. `EXIT_LIMIT` replaces it once `on_output` has reported that the work is done.
    Of each stream, `max_output` bytes are kept. `tag` (empty: a new one) marks every process of the tree, so that
    `end_orphans` can find them if this program dies. `proof` (empty: none is needed) is the variable that tells a guard
    where to prove that it has an effect; `stdin` is written only then.

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
    >>> from turngate.process import run
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


# the events that a run waits for: the time of the exit, a stop, an error in `on_output`, or whether the work is done
_Events = queue.SimpleQueue[float | Ended | Exception | bool]
OnOutput = Callable[[str, bytes], bool | None]


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
        start = time.monotonic()
        process = tree.start(request.argv, request.cwd, env, stdin=request.stdin is not Stdin.CLOSED)
        data = request.stdin if isinstance(request.stdin, bytes) else None
        pipes = Pipes(process, data, request.max_output, _telling(on_output, events), events.put, proof)
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
            pipes.close(_DRAIN_GRACE, hurries=stop.is_set)
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
            event = Ended.LINGERED if done_at else Ended.TIMEOUT
    if isinstance(event, Exception):
        raise event
    if isinstance(event, Ended):
        ended, leftovers, end = event, tree.end(), time.monotonic()
    else:
        ended, leftovers, end = Ended.EXIT, tree.settle(), event
    return ended, end, max(end - done_at, 0.0) if done_at else None, leftovers


TIMEOUT = 1200.0


class TurnRun(Struct, frozen=True):
    """The result of a turn: `reading` is what its streams say, `process` how its process ended.

    >>> turngate.TurnRun.__struct_fields__
    ('reading', 'process')
    """

    reading: TurnReading
    process: ProcessOutcome


def process_request(
    turn: Invocation,
    executable: Path,
    workspace: Path,
    *,
    env: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
) -> ProcessRequest:
    """Return the process that runs a turn: argv, working directory, whole environment, standard input, deadline.

    Every turn of a session must run in the same `workspace`, an existing directory. `env` is the environment except
    PWD (None: `engine_environment` of this process's). The turn's variables replace its own. The contract's guards
    do so only if it lacks them, or if they name files that turngate supplies.
    `timeout` is in seconds of wall time. MachineError: the files that guard the engine can't be written. RefusedError:
    an instruction file is a link that leads out of the workspace, or the prompt is an argument of an engine that must
    prove that it is guarded before it gets one.

    >>> from pathlib import Path
    >>> turn = turngate.first_turn(turngate.load_contract("codex", "0.169.0"), "Paint the door", "auto")
    >>> request = turngate.process_request(turn, Path("/opt/codex"), Path("/work"), env={"PATH": "/bin"}, timeout=60)
    >>> request.argv[:2], request.stdin, request.env["PWD"]
    (('/opt/codex', 'exec'), b'Paint the door', '/work')
    """
    if env is None:
        env = engine_environment(turn.contract, os.environ)
    stdin = Stdin.CLOSED if turn.stdin is None else turn.stdin
    proof = turn.contract.guards.proof or ""
    if proof and turn.stdin is None:
        what = f"{turn.contract.engine} must prove that it is guarded before it gets a prompt"
        raise RefusedError(what, "pass the prompt on standard input")
    workspace = workspace.absolute()
    check_instruction_files(turn.contract, workspace, env)
    env, prompt = {**guarded(env, turn.contract.guards), **turn.env}, {*turn.prompt_at}
    slots = _slots(turn)
    arguments = tuple(t if i in prompt else _filled(t, slots) for i, t in enumerate(turn.arguments))
    env = {name: _filled(value, slots) for name, value in env.items()}
    argv = (str(executable.absolute()), *arguments)
    return ProcessRequest(argv, workspace, {**env, "PWD": str(workspace)}, stdin, timeout, proof=proof)


def _slots(turn: Invocation) -> dict[str, str]:
    """Return the values of the slots of a turn; MachineError: its files can't be written."""
    means = turn.contract.artifacts if turn.artifacts else None
    slots = {ARTIFACTS: str(turn.artifacts), PYTHON: sys.executable} if means else {}
    files = {**turn.contract.guards.files, **(means.files if means else {})}
    return {**slots, **({SLOT: str(supplied_folder(files))} if files else {})}


def _filled(text: str, slots: Mapping[str, str]) -> str:
    for slot, value in slots.items():
        text = text.replace(slot, value)
    return text


def run_turn(
    request: ProcessRequest,
    reader: TurnReader,
    *,
    stop: Stop | None = None,
    on_output: Callable[[Stream, bytes], None] | None = None,
    on_start: Callable[[int], None] | None = None,
) -> TurnRun:
    """Run a turn, and return when its process and all its descendants have ended.

    The process is terminated at the deadline of the request, when `stop` is set, or if it has not exited 10 seconds
    after the end of its turn. `on_output` gets each chunk after the reader: from other threads, one call at a time,
    like `on_text` of the reader. `on_start` gets the process id. An exception in any of them ends the process and is
    raised here.

    MachineError or UsageError: the process could not be started. RefusedError: it did not prove that it is guarded, and
    got no prompt. Mistakes of the engine are in the result.

    >>> from pathlib import Path
    >>> codex = turngate.load_contract("codex", "0.169.0")
    >>> turn = turngate.first_turn(codex, "Paint the door", "interactive")
    >>> request = turngate.process_request(turn, turngate.find_executable(codex), Path.cwd(), timeout=60)
    >>> run = turngate.run_turn(request, turngate.TurnReader.for_turn(turn))
    >>> run.reading.result.interaction.prompt
    'Which colour?'
    """

    def received(stream: str, chunk: bytes) -> bool:
        name: Stream = "stdout" if stream == "stdout" else "stderr"
        try:
            reader.feed(name, chunk)
        finally:
            if on_output:
                on_output(name, chunk)
        return reader.over

    outcome = run(request, stop=stop, on_output=received, on_start=on_start)
    return TurnRun(reader.finish(outcome.exit_code, ended=outcome.ended), outcome)


async def run_turn_async(
    request: ProcessRequest,
    reader: TurnReader,
    *,
    on_output: Callable[[Stream, bytes], None] | None = None,
    on_start: Callable[[int], None] | None = None,
) -> TurnRun:
    """Run a turn as `run_turn` does, in a separate thread, without blocking the event loop.

    If the awaiting task is canceled, the process and all its descendants are terminated first. `on_output` and
    `on_start` run in other threads; use `call_soon_threadsafe` to reach the event loop. MachineError: as for
    `run_turn`.

    >>> import asyncio
    >>> from pathlib import Path
    >>> codex = turngate.load_contract("codex", "0.169.0")
    >>> turn = turngate.first_turn(codex, "Paint the door", "interactive")
    >>> request = turngate.process_request(turn, turngate.find_executable(codex), Path.cwd(), timeout=60)
    >>> run = asyncio.run(turngate.run_turn_async(request, turngate.TurnReader.for_turn(turn)))
    >>> run.reading.result.interaction.options
    ('red', 'blue')
    """
    import asyncio  # noqa: PLC0415 - slow to import; who awaits this has it
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - likewise

    stop, thread = Stop(), ThreadPoolExecutor(1, "turngate-turn")
    running = thread.submit(run_turn, request, reader, stop=stop, on_output=on_output, on_start=on_start)
    thread.shutdown(wait=False)
    ended = asyncio.wrap_future(running)
    try:
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([ended])
        ended.exception()  # an exception that is never retrieved would be logged
        raise
