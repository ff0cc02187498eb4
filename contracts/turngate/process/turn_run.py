"""Runs a turn: starts an engine's process and reads its output until it ends."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from turngate.argv.build import Invocation
from turngate.argv.environment import engine_environment
from turngate.argv.file_slot import SLOT
from turngate.contract.launch import Stream
from turngate.process.execution import ProcessOutcome, ProcessRequest, Stdin, Stop, run
from turngate.process.supplied_files import guarded, supplied_folder
from turngate.turn.read import TurnReader, TurnReading

TIMEOUT = 1200.0


class TurnRun(Struct, frozen=True):
    """The result of a turn: what its streams say, and how its process ended.

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
    `timeout` is in seconds of wall time. EnvironmentFailed: the files that guard the engine can't be written.

    >>> from pathlib import Path
    >>> turn = turngate.first_turn(turngate.load_contract("codex", "0.169.0"), "Paint the door", "auto")
    >>> request = turngate.process_request(turn, Path("/opt/codex"), Path("/work"), env={"PATH": "/bin"}, timeout=60)
    >>> request.argv[:2], request.stdin, request.env["PWD"]
    (('/opt/codex', 'exec'), b'Paint the door', '/work')
    """
    if env is None:
        env = engine_environment(turn.contract, os.environ)
    stdin = Stdin.CLOSED if turn.stdin is None else turn.stdin
    workspace = workspace.absolute()
    arguments, env = turn.arguments, {**guarded(env, turn.contract.guards), **turn.env}
    if files := turn.contract.guards.files:
        folder = str(supplied_folder(files))
        prompt = {*turn.prompt_at}
        arguments = tuple(t if i in prompt else t.replace(SLOT, folder) for i, t in enumerate(arguments))
        env = {name: value.replace(SLOT, folder) for name, value in env.items()}
    argv = (str(executable.absolute()), *arguments)
    return ProcessRequest(argv, workspace, {**env, "PWD": str(workspace)}, stdin, timeout)


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

    EnvironmentFailed: the process could not be started. Mistakes of the engine are in the result.

    >>> from pathlib import Path
    >>> codex = turngate.load_contract("codex", "0.169.0")
    >>> turn = turngate.first_turn(codex, "Paint the door", "interactive")
    >>> request = turngate.process_request(turn, turngate.find_executable(codex), Path.cwd(), timeout=60)
    >>> run = turngate.run_turn(request, turngate.TurnReader.for_turn(turn))
    >>> run.reading.result.interaction.prompt
    'Which colour?'
    """

    def heard(stream: str, chunk: bytes) -> bool:
        name: Stream = "stdout" if stream == "stdout" else "stderr"
        try:
            reader.feed(name, chunk)
        finally:
            if on_output:
                on_output(name, chunk)
        return reader.over

    outcome = run(request, stop=stop, on_output=heard, on_start=on_start)
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
    `on_start` run in other threads; use `call_soon_threadsafe` to reach the event loop. EnvironmentFailed: as for
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
