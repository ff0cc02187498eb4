"""One attempt at a turn in the user's own environment, with its traces kept in the run directory."""

import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from turngate.argv import Invocation
from turngate.contract import Stream
from turngate.envelope import BadEnvelope, Envelope, read_envelope
from turngate.errors import EnvironmentFailed
from turngate.model import Mode
from turngate.runtime import Ended, ProcessRequest, Stdin, Stop, run
from turngate.turn import TurnReader, TurnReading
from turngate_reference.installed import InstalledEngine

MAX_TRACE = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of an attempt: the engine's exit code (None: not reaped), whether it was interrupted, its turn."""

    exit_code: int | None
    interrupted: bool
    reading: TurnReading
    envelope: Envelope | BadEnvelope | None

    @property
    def went_well(self) -> bool:
        """Whether the engine exited with 0, proved the end of the turn, reported no failure, and gave an answer."""
        reading = self.reading
        return self.exit_code == 0 and reading.ended and not reading.failures and reading.final_text is not None


def attempt(
    engine: InstalledEngine,
    built: Invocation,
    cwd: Path,
    run_directory: Path,
    *,
    number: int,
    resumed: str | None,
    on_text: Callable[[str], None],
    stop: Stop,
) -> Attempt:
    """Run the engine to its end in `cwd`, as if typed there; EnvironmentFailed if it can't be started.

    Command, stdout and stderr are kept in `traces(run_directory, number)`.
    """
    folder = traces(run_directory, number)
    # read as in mode auto: what a person is told does not depend on an envelope, and ids are compared by the caller
    reader = TurnReader(engine.contract, Mode.AUTO, turn_index=number, resumed=resumed, on_text=on_text)
    argv = (str(engine.executable), *built.arguments)
    stdin = Stdin.CLOSED if built.stdin is None else built.stdin
    env = dict(os.environ) | {"PWD": str(cwd)}
    request = ProcessRequest(argv, cwd, env, stdin, timeout=float("inf"), max_output=0)
    with ExitStack() as files:
        kept = _keep(folder, argv, engine, files)

        def on_output(stream: str, chunk: bytes) -> None:
            name: Stream = "stdout" if stream == "stdout" else "stderr"
            trace = kept[name]
            try:
                trace.write(chunk[: max(0, MAX_TRACE - trace.tell())])
            except OSError as error:
                raise _no_room(folder, error) from error
            reader.feed(name, chunk)

        outcome = run(request, stop=stop, on_output=on_output)
    reading = reader.finish(outcome.exit_code)
    interrupted = outcome.ended is Ended.STOPPED
    return Attempt(outcome.exit_code, interrupted, reading, read_envelope(reading.final_text or ""))


def traces(run_directory: Path, number: int) -> Path:
    """Give the folder of an attempt's traces: `command.json`, `stdout`, `stderr`."""
    return run_directory / ".turngate" / f"attempt-{number:03}"


def _keep(folder: Path, argv: tuple[str, ...], engine: InstalledEngine, files: ExitStack) -> dict[Stream, FileIO]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        told = {"argv": argv, "version": engine.version}
        (folder / "command.json").write_text(json.dumps(told, indent=2) + "\n", "utf-8")
        return {
            "stdout": files.enter_context((folder / "stdout").open("wb", buffering=0)),
            "stderr": files.enter_context((folder / "stderr").open("wb", buffering=0)),
        }
    except OSError as error:
        raise _no_room(folder, error) from error


def _no_room(folder: Path, error: OSError) -> EnvironmentFailed:
    return EnvironmentFailed(f"{folder} can't be written: {error.strerror}", "make room, or mend its permissions")
