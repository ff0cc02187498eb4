"""One attempt at a turn in the user's own environment, with its traces kept in the run directory."""

import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from turngate.argv import Invocation
from turngate.contract import Stream
from turngate.envelope import BadEnvelope, Envelope, read_envelope
from turngate.errors import EnvironmentFailed
from turngate.model import Mode
from turngate.runtime import Ended, ProcessRequest, Stdin, Stop, run
from turngate.turn import TurnReader, TurnReading
from turngate_reference.installed import InstalledEngine

TRACES = ".turngate"
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
        """Whether the engine exited with 0, proved the end of the turn, and reported no failure."""
        return self.exit_code == 0 and self.reading.ended and not self.reading.failures


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

    Command, stdout and stderr are kept below `.turngate/attempt-<number>` of the run directory.
    """
    folder = run_directory / TRACES / f"attempt-{number:03}"
    # read as in mode auto: what a person is told does not depend on an envelope, and ids are compared by the caller
    reader = TurnReader(engine.contract, Mode.AUTO, turn_index=number, resumed=resumed, on_text=on_text)
    argv = (str(engine.executable), *built.arguments)
    stdin = Stdin.CLOSED if built.stdin is None else built.stdin
    env = dict(os.environ) | {"PWD": str(cwd)}
    request = ProcessRequest(argv, cwd, env, stdin, timeout=float("inf"), max_output=0)
    with ExitStack() as files:
        traces = _traces(folder, argv, engine, files)

        def on_output(stream: str, chunk: bytes) -> None:
            name: Stream = "stdout" if stream == "stdout" else "stderr"
            trace = traces[name]
            trace.write(chunk[: max(0, MAX_TRACE - trace.tell())])
            reader.feed(name, chunk)

        outcome = run(request, stop=stop, on_output=on_output)
    reading = reader.finish(outcome.exit_code)
    interrupted = outcome.ended is Ended.STOPPED
    return Attempt(outcome.exit_code, interrupted, reading, read_envelope(reading.final_text or ""))


def _traces(folder: Path, argv: tuple[str, ...], engine: InstalledEngine, files: ExitStack) -> dict[Stream, BinaryIO]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        told = {"argv": argv, "version": engine.version}
        (folder / "command.json").write_text(json.dumps(told, indent=2) + "\n", "utf-8")
        return {
            "stdout": files.enter_context((folder / "stdout").open("wb")),
            "stderr": files.enter_context((folder / "stderr").open("wb")),
        }
    except OSError as error:
        raise EnvironmentFailed(f"{folder} can't be written: {error.strerror}", "make room") from error
