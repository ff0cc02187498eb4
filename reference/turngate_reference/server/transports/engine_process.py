"""One kept process: its start, the lines to and from it with their traces, watching for its exit, and ending it."""

import asyncio
import logging
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import FileIO
from typing import IO, cast

import orjson

from turngate import Mode, ProcessRequest
from turngate.argv import build as argv
from turngate.argv.file_slot import SLOT
from turngate.contract.launch import ModeQuery, PermissionMode
from turngate.files import make_private, open_private
from turngate.process.execution import run
from turngate.process.family import is_alive, start_time
from turngate.process.guard_proof import GuardProof, unguarded
from turngate.process.instruction_files import check_instruction_files
from turngate.process.supplied_files import guarded, supplied_folder
from turngate.process.tree import ProcessTree
from turngate.turn.framing import Lines, Problems
from turngate_reference.engine.attempt import append_trace, stderr_note, write_command
from turngate_reference.server.transports.events import OpenRequest

MAX_TRACE = 16 * 2**20
TAIL = 2**12
_QUERY_TIMEOUT = 60.0
_EXITED = "it has exited"
_DEAF = "its input can't be written"
_MUTE = "its output has ended"
_LOOK = 0.3  # seconds between two checks whether the process is alive
_DRAIN = 0.1  # seconds in which the last output may still be read after the process has ended
_logger = logging.getLogger(__name__)


class TransportError(Exception):
    """The engine violated its contract; the text says how."""


class EngineProcess:
    """A process, created on the loop; `start` and `end` block, and belong on separate threads.

    `lost` is done, with the reason, once communication has ended: when the started process exits, even if
    others hold its pipes, when a pipe ends, and when its input can't be written. `on_line` gets what it prints; a line
    of more than 8 MiB is dropped, and noted in `problems`. `started_at` is in seconds since the epoch.
    """

    pid: int
    started_at: float
    argv: tuple[str, ...]
    _tree: ProcessTree
    _process: subprocess.Popen[bytes]
    _protocol: FileIO
    _stderr: FileIO

    def __init__(self, request: OpenRequest) -> None:
        """Take the request; TransportError if the contract does not say how asking is switched on."""
        self.request, self.approval = request, _approval(request)
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.on_line: Callable[[bytes], None] = lambda _line: None
        self.problems = Problems()
        self._lines = Lines(self.problems)
        self._tail, self._reason = b"", ""
        self._holder: Callable[[], None] | None = None
        self._is_drained = False
        self._files = ExitStack()
        self._stdin: asyncio.WriteTransport | None = None

    def start(self) -> None:
        """Start the process, after checking that its configuration makes it ask, if the contract says how to check.

        The command is written to the traces.

        Raises:
            RefusedError: an option can't be passed, an instruction file leads out of the workspace, or the process gave
                no proof that it is guarded.
            MachineError: it could not be started.
            OSError: the command can't be written.
            TransportError: the configuration in force lets it act without asking.
        """
        request = self.request
        make_private(request.traces)
        check_instruction_files(request.contract, request.cwd, request.env)
        guards = request.contract.guards
        files = supplied_folder({**guards.files, **self.approval.files})
        self.argv = argv.sticky(
            request.contract,
            request.mode,
            options=request.options,
            model=request.model,
            workspace=request.cwd,
            files=files,
        )
        env = {**guarded(request.env, guards), **self.approval.env}
        env = {name: value.replace(SLOT, str(files)) for name, value in env.items()}
        if self.approval.query:
            _query(request, self.approval.query, env)
        self._tree = ProcessTree(request.tag)
        command = (str(request.executable), *self.argv)
        write_command(request.traces, command, request.contract.version)
        _logger.debug("kept process in %s: %s", request.cwd, shlex.join(command))
        with ExitStack() as cleanup:
            proof = cleanup.enter_context(GuardProof(guards.proof)) if guards.proof else None
            self._process = self._tree.start(command, request.cwd, {**env, **(proof.env if proof else {})}, stdin=True)
            self.pid = self._process.pid
            try:
                self.started_at = start_time(self.pid)
                if proof:
                    self._await(proof)
            except BaseException:  # such as no free file descriptor; nobody else knows of the process
                self._abandon()
                raise

    def _abandon(self) -> None:
        """End the process before anybody talks to it."""
        self.hurry()
        self.end()
        for stream in filter(None, (self._process.stdin, self._process.stdout, self._process.stderr)):
            stream.close()

    def _await(self, proof: GuardProof) -> None:
        """Return once the process has proved that it is guarded; RefusedError if it doesn't."""
        guard = proof.wait(lambda: _has_exited(self.pid))
        if guard is None:
            why = "exited" if _has_exited(self.pid) else "did not go on"
            raise unguarded(str(self.request.executable), f"{why} before its guard had an effect")
        os.close(guard)

    async def connect(self) -> None:
        """Start to read, and to watch for the exit."""
        loop, traces = asyncio.get_running_loop(), self.request.traces
        self._protocol = self._files.enter_context(FileIO(traces / "protocol", "ab", opener=open_private))
        self._stderr = self._files.enter_context(FileIO(traces / "stderr", "ab", opener=open_private))
        streams = self._process.stdin, self._process.stdout, self._process.stderr
        stdin, stdout, stderr = (cast(IO[bytes], stream) for stream in streams)
        for stream in (stdin, stdout, stderr):
            os.set_blocking(stream.fileno(), False)
        self._stdin, _ = await loop.connect_write_pipe(lambda: _Pipe(lambda: self.lose(_DEAF)), stdin)
        output, _ = await loop.connect_read_pipe(lambda: _Pipe(lambda: self.lose(_MUTE), self._read), stdout)
        errors, _ = await loop.connect_read_pipe(lambda: _Pipe(lambda: None, self._read_stderr), stderr)
        self._files.callback(output.close)
        self._files.callback(errors.close)
        self._watch()

    def send(self, line: bytes) -> None:
        """Write a line; if that fails, the process is lost."""
        self._trace_line(">", line)
        if self._stdin is None or self._stdin.is_closing():
            self.lose(_DEAF)
        else:
            self._stdin.write(line + b"\n")

    def lose(self, why: str) -> None:
        """Declare the process lost, once its last output has been read."""
        if not self._reason:
            self._reason = why
            asyncio.get_running_loop().call_later(_DRAIN, self._settle)

    @contextmanager
    def held(self, drained: Callable[[], None]) -> Iterator[None]:
        """Declare no loss before the end of this block; `drained` is called if the last output has been read."""
        self._holder = drained
        try:
            yield
        finally:
            self._holder = None
            if self._is_drained:
                self._settle()

    def close(self) -> None:
        """Close the pipes and the traces."""
        if self._stdin is not None and not self._stdin.is_closing():
            self._stdin.abort()
        self._files.close()
        self.lost.cancel()

    def hurry(self) -> None:
        """Ask the process group to end, without waiting, so that many can end in parallel before `end`."""
        with suppress(OSError):
            os.killpg(self.pid, signal.SIGTERM)

    def end(self) -> int | None:
        """End the whole tree and return the exit code of the process."""
        if left := self._tree.end():
            pids = ", ".join(str(process.pid) for process in left)
            _logger.error("could not stop these processes of %s: %s", self.request.executable, pids)
        return self._tree.reap()[0]

    def _read(self, chunk: bytes) -> None:
        for read in self._lines.feed(chunk):
            line = read.removesuffix(b"\n")
            self._trace_line("<", line)
            self.on_line(line)

    def _read_stderr(self, chunk: bytes) -> None:
        _trace(self._stderr, chunk)
        self._tail = (self._tail + chunk)[-TAIL:]

    def _trace_line(self, direction: str, line: bytes) -> None:
        _trace(self._protocol, b"%.3f %s %s\n" % (time.time(), direction.encode(), line))

    def _watch(self) -> None:
        """Wait for the exit of the started process, without reaping it and without a thread."""
        if self.lost.done():
            return
        if _has_exited(self.pid):
            self.lose(_EXITED)
        else:
            asyncio.get_running_loop().call_later(_LOOK, self._watch)

    def _settle(self) -> None:
        """Set the reason with the last lines on standard error; an exit takes precedence over other reasons."""
        if self.lost.done():
            return
        self._is_drained = True
        if self._holder:
            self._holder()
            return
        why = _EXITED if _has_exited(self.pid) else self._reason
        self.lost.set_result(why + stderr_note(self._tail.decode("utf-8", "replace")))


class _Pipe(asyncio.Protocol):
    """Passes on the content of a pipe, and its end."""

    def __init__(self, ended: Callable[[], None], read: Callable[[bytes], None] = lambda _data: None) -> None:
        self._ended, self._read = ended, read

    def data_received(self, data: bytes) -> None:
        self._read(data)

    def connection_lost(self, _exc: Exception | None) -> None:
        self._ended()


def _has_exited(pid: int) -> bool:
    """Whether a child that isn't reaped yet has exited; cheap, since many processes are checked."""
    if not hasattr(os, "waitid"):  # macOS before Python 3.13
        return not is_alive(pid)
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _trace(trace: FileIO, data: bytes) -> None:
    # a full disk must not stop the engine; ValueError: the process was closed
    with suppress(OSError, ValueError):
        append_trace(trace, data, MAX_TRACE)


def _approval(request: OpenRequest) -> PermissionMode:
    sticky = request.contract.sticky
    if request.mode is Mode.AUTO:
        return sticky.auto or PermissionMode()
    if (approval := sticky.interactive) is None:
        raise TransportError(f"the contract doesn't define how a sticky {request.contract.engine} asks before it acts")
    return approval


def _query(request: OpenRequest, query: ModeQuery, env: dict[str, str]) -> None:
    """Run the engine's configuration command, and check that every value below the key is allowed."""
    command = (str(request.executable), *query.argv)
    printed = run(ProcessRequest(command, request.cwd, env, timeout=_QUERY_TIMEOUT, tag=request.tag)).stdout
    try:
        document = orjson.loads(printed)
    except orjson.JSONDecodeError:
        raise TransportError(f"its configuration can't be read: {' '.join(query.argv)} printed no JSON") from None
    values = _below(document, query.key, (), within=False)
    if not values:
        raise TransportError(f"its configuration has no {query.key}")
    for place, value in values:
        if value not in query.values:
            raise TransportError(f"its configuration lets it act without asking: {place} is {str(value)[:100]}")


def _below(value: object, key: str, path: tuple[str, ...], *, within: bool) -> list[tuple[str, object]]:
    """Return every plain value below the key, with its path."""
    if isinstance(value, dict):
        parts = [(str(name), part, within or name == key) for name, part in value.items()]
    elif isinstance(value, list):
        parts = [(str(number), part, within) for number, part in enumerate(value)]
    else:
        return [(".".join(path), value)] if within else []
    return [entry for name, part, below in parts for entry in _below(part, key, (*path, name), within=below)]
