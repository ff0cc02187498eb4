"""Runs a turn: a process whose output is read as it arrives, with the guards of its contract."""

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from turngate.argv.build import Invocation
from turngate.argv.environment import engine_environment
from turngate.argv.file_slot import ARTIFACTS, PYTHON, SLOT
from turngate.contract.launch import Stream
from turngate.errors import RefusedError
from turngate.process.execution import ProcessOutcome, ProcessRequest, Stdin, Stop, run
from turngate.process.instruction_files import check_instruction_files
from turngate.process.supplied_files import guarded, supplied_folder
from turngate.turn.read import TurnReader, TurnReading

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
    do so only if it lacks them, or if they name files that turngate supplies. Of PATH, only absolute folders are kept:
    any other would be looked up in the workspace. `timeout` is in seconds of wall time. MachineError: the files that
    guard the engine can't be written. RefusedError: an instruction file is a link that leads out of the workspace, or
    the prompt is an argument of an engine that must prove that it is guarded before it gets one.

    >>> from pathlib import Path
    >>> turn = turngate.first_turn(turngate.load_contract("codex", "0.169.0"), "Paint the door", "auto")
    >>> request = turngate.process_request(turn, Path("/opt/codex"), Path("/project"), env={"PATH": "/bin"}, timeout=60)
    >>> request.argv[:2], request.stdin, request.env["PWD"]
    (('/opt/codex', 'exec'), b'Paint the door', '/project')
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
    env, file = {**env, "PWD": str(workspace)}, turn.contract.streams.stdout_file
    return ProcessRequest(argv, workspace, env, stdin, timeout, proof=proof, stdout_file=file)


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

    MachineError or UsageError: the process could not be started, or its tag has a slash. RefusedError: it did not prove
    that it is guarded, and got no prompt. Mistakes of the engine are in the result.

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
    reading = reader.finish(outcome.exit_code, ended=outcome.ended, started=bool(outcome.seconds))
    return TurnRun(reading, outcome)


async def run_turn_async(
    request: ProcessRequest,
    reader: TurnReader,
    *,
    on_output: Callable[[Stream, bytes], None] | None = None,
    on_start: Callable[[int], None] | None = None,
) -> TurnRun:
    """Run a turn as `run_turn` does, in a separate thread, without blocking the event loop.

    If the awaiting task is canceled, even repeatedly, the process and all its descendants are terminated first.
    `on_output` and `on_start` run in other threads; use `call_soon_threadsafe` to reach the event loop. The errors are
    those of `run_turn`.

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
        while not ended.done():
            with suppress(asyncio.CancelledError):  # such as that of a shutdown after that of a timeout
                await asyncio.wait([ended])
        ended.exception()  # an exception that is never retrieved would be logged
        raise


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
