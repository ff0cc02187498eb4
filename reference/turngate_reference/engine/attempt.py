"""Finds an engine on this machine, and runs one attempt at a turn, with its traces on disk."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from io import FileIO
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from turngate import (
    Ended,
    EngineContract,
    Invocation,
    MachineError,
    NotCoveredError,
    Stop,
    TurnReader,
    TurnReading,
    engine_version,
    find_executable,
    process_request,
    run_turn,
)
from turngate.contract.cached import cached_contract
from turngate.contract.launch import Stream
from turngate.files import make_private, open_private
from turngate.process.executable import identity, remember_version, remembered_version
from turngate.process.execution import EXIT_LIMIT
from turngate.process.installed_release import place_to_ask, version_in_folder
from turngate.process.sessions import Leftover
from turngate.sanitize import last_lines
from turngate.turn.envelope import BadEnvelope, Envelope, read_envelope
from turngate.turn.read import STREAMS
from turngate_reference.data_dir import DataDir

MAX_TRACE = 64 * 2**20
OnOutput = Callable[[Stream, bytes], None]
_NOTED_LINES = 5


class InstalledEngine(Struct, frozen=True):
    """An engine's executable and its contract; `version` None: it did not print one.

    `identity` is the file's when it was examined; empty if nobody did. `cwd` is where it is this release, because it
    could be another one elsewhere; None: it is this release everywhere.
    """

    executable: Path
    version: str | None
    contract: EngineContract
    identity: str = ""
    cwd: Path | None = None

    @property
    def key(self) -> tuple[str, str, str, str]:
        """A key that distinguishes it from other engines, from other releases, and its file from earlier ones."""
        return self.contract.engine, str(self.executable), self.identity, self.version or ""


def find_engine(engine: str, data: DataDir, stop: Stop, cwd: Path | None = None) -> InstalledEngine:
    """Find an engine on PATH as it is in the directory of a turn (None: one below the data directory).

    Asking an engine for its version may take seconds. Where that can't depend on the directory, the answer is cached
    until the executable changes. NotInstalledError: it is not installed. ContractError: it has no contract.
    """
    newest = cached_contract(engine)
    executable = find_executable(newest)
    place = place_to_ask(newest, executable, cwd or data.runs)
    version = version_of(newest, executable, data, dict(os.environ), stop, place)
    return InstalledEngine(executable, version, contract_for(engine, version), cwd=place)


def contract_for(engine: str, version: str | None) -> EngineContract:
    """Return the contract for a release, or for the newest one where it does not cover the release."""
    with suppress(NotCoveredError):
        return cached_contract(engine, version)
    return cached_contract(engine)


def version_of(
    newest: EngineContract, executable: Path, data: DataDir, env: Mapping[str, str], stop: Stop, place: Path | None
) -> str | None:
    """Return an executable's version in a directory; None: it prints none.

    Without a directory, the version doesn't depend on it, and comes from the cache if the file has not changed.
    """
    if place:
        return version_in_folder(newest, executable, place, env, stop)
    now = identity(executable)
    version = remembered_version(executable, now, data.versions)
    if version is None and (version := engine_version(newest, executable, env, stop)):
        # a cache that can't be written only costs time
        with suppress(OSError):
            data.make()
            remember_version(executable, now, version, data.versions)
    return version


class NoRoomError(MachineError):
    """The traces of an attempt can't be written."""


class Attempt(Struct, frozen=True):
    """The result of an attempt: the engine's exit code (None: it has none), what ended it, its turn.

    An engine that does not exit within `EXIT_LIMIT` after its turn has ended is ended, and the turn counts.
    """

    exit_code: int | None
    ended: Ended
    reading: TurnReading

    @property
    def interrupted(self) -> bool:
        """Whether it was interrupted from outside."""
        return self.ended is Ended.STOPPED

    @property
    def lingered(self) -> bool:
        """Whether it was ended because it didn't exit after its turn."""
        return self.ended is Ended.LINGERED

    @property
    def envelope(self) -> Envelope | BadEnvelope | None:
        """The envelope in the agent's answer."""
        return read_envelope(self.reading.final_text or "")

    @property
    def went_well(self) -> bool:
        """Whether the engine proved the turn's end, reported no failure, gave an answer, and did not exit badly."""
        exited_well = self.exit_code == 0 or self.lingered
        return exited_well and self.reading.ended and not self.reading.failures and not self.is_silent

    @property
    def is_silent(self) -> bool:
        """Whether the turn ended without an answer."""
        return self.reading.ended and self.reading.final_text is None


def ignore_output(_stream: Stream, _chunk: bytes) -> None:
    """Take the output of an engine, and do nothing."""


class RunOptions(Struct, frozen=True):
    """How an engine runs: where, in which environment, for how long, and its stop and listeners.

    `timeout` is in seconds; `tag` marks its processes (empty: nobody needs to find them later); `on_start` gets
    the process id, and `on_output` each chunk of a stream, after the reader.
    """

    cwd: Path
    env: Mapping[str, str]
    stop: Stop
    timeout: float = float("inf")
    tag: str = ""
    on_start: Callable[[int], None] | None = None
    on_output: OnOutput = ignore_output


def attempt(
    engine: InstalledEngine, built: Invocation, reader: TurnReader, folder: Path, options: RunOptions
) -> Attempt:
    """Run the engine to its end, read by `reader`; TurngateError if it can't be started.

    Command, stdout and stderr are written to `folder`; NoRoomError if they can't be.
    """
    request = process_request(built, engine.executable, options.cwd, env=options.env, timeout=options.timeout)
    request = replace(request, max_output=0, tag=options.tag)
    with ExitStack() as files:
        with _needs_room(folder):
            make_private(folder)
            write_command(folder, request.argv, engine.version)
            opened: dict[Stream, FileIO] = {
                name: files.enter_context(FileIO(folder / name, "wb", opener=open_private)) for name in STREAMS
            }

        def on_output(stream: Stream, chunk: bytes) -> None:
            with _needs_room(folder):
                append_trace(opened[stream], chunk, MAX_TRACE)
            options.on_output(stream, chunk)

        done = run_turn(request, reader, stop=options.stop, on_output=on_output, on_start=options.on_start)
    lingered = done.process.ended is Ended.LINGERED
    _tell(engine.executable, done.process.leftovers, lingered=lingered)
    return Attempt(None if lingered else done.process.exit_code, done.process.ended, done.reading)


def _tell(executable: Path, leftovers: tuple[Leftover, ...], *, lingered: bool) -> None:
    """Log that an engine didn't exit, and what could not be ended."""
    left = ", ".join(str(process.pid) for process in leftovers if process.survived)
    if not (lingered or left):
        return
    import logging  # noqa: PLC0415 - slow to import, and seldom needed

    log = logging.getLogger(__name__)
    if lingered:
        log.warning("%s was stopped: it was still running %.0f s after its turn", executable, EXIT_LIMIT)
    if left:
        log.error("could not stop these processes of %s: %s", executable, left)


def traces(run_directory: Path, number: int) -> Path:
    """Return the folder of an attempt's traces: `command.json`, `stdout`, `stderr`."""
    return run_directory / ".turngate" / f"attempt-{number:03}"


def stderr_note(stderr: str) -> str:
    """Return the last lines that an engine printed on stderr, as the end of a sentence; empty if there are none."""
    return f"; stderr: {' | '.join(lines)}" if (lines := last_lines(stderr, _NOTED_LINES)) else ""


def append_trace(trace: FileIO, data: bytes, limit: int) -> None:
    """Append as much as fits into a trace of `limit` bytes."""
    trace.write(data[: max(0, limit - trace.tell())])


def write_command(folder: Path, argv: Sequence[str], version: str | None) -> None:
    """Write the command of a process to the traces."""
    with open(folder / "command.json", "w", encoding="utf-8", opener=open_private) as file:
        file.write(json.dumps({"argv": argv, "version": version}, indent=2) + "\n")


@contextmanager
def _needs_room(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise NoRoomError(
            f"{folder} can't be written: {error.strerror}", "free some disk space or fix its permissions"
        ) from error
