"""The simulated engine as a process: its streams, its signals, and the executable that runs it."""

import os
import select
import shlex
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Never, NoReturn

from msgspec.structs import replace

from turngate import EngineContract, EnvironmentFailed, TurngateError, load_contract
from turngate.contract.launch import Stream
from turngate.contract.simulation import SIGNALS
from turngate_probes.simulate.backend import EngineContext, Stopped, backend
from turngate_probes.simulate.engine import run
from turngate_probes.simulate.printing import simulation
from turngate_probes.simulate.sticky import faults
from turngate_probes.simulate.sticky.start import starts_sticky

USAGE = 2


def main(*faulty: str) -> Never:
    """Run the engine in the first argument, at the version in the second, with these faults, and exit."""
    engine, version, *argv = sys.argv[1:]
    try:
        sys.exit(simulate(load_contract(engine, version or None), argv, faulty))
    except TurngateError as wrong:
        sys.stderr.write(f"turngate: {wrong}\n")
        sys.exit(USAGE)


def simulate(contract: EngineContract, argv: Sequence[str], faulty: Sequence[str] = ()) -> int:
    """Run the simulation on this process's own streams, directory and environment; return the exit code."""
    sticky = starts_sticky(contract, argv)
    _heed_signals(contract, raising=not sticky)
    if faults.IGNORES_TERMINATION in faulty and sticky:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
    cwd, tool = str(Path.cwd()), contract.hermetic.tool_call
    if tool:
        filled = {k: v.replace("{work}", cwd) if isinstance(v, str) else v for k, v in tool.arguments.items()}
        tool = replace(tool, arguments=filled)
    world = EngineContext(
        env=os.environ,
        cwd=cwd,
        stdin=_stdin() if sticky else sys.stdin.buffer,
        write=_write,
        hang=_hang,
        clock=time.time,
        backend=backend(os.environ, tool),
        faults=frozenset(faulty),
        has_input=_has_input,
    )
    try:
        return run(contract, tuple(argv), world)
    except Stopped as stopped:
        return _exit_code(contract, stopped.name)


def install(contract: EngineContract, folder: Path, faulty: Sequence[str] = ()) -> Path:
    """Write an executable, named like the engine's, that simulates the release; EnvironmentFailed if that fails."""
    from turngate.process.executable import MARKER, is_simulated  # noqa: PLC0415 - not needed to be an engine

    path = folder / contract.executable
    # -P: a file in the engine's working directory must not replace one of turngate's modules
    code = f"from turngate_probes.simulate.process import main; main{tuple(faulty)!r}"
    command = shlex.join([sys.executable, "-P", "-c", code, contract.engine, contract.version or ""])
    try:
        if path.exists() and not is_simulated(path):
            raise EnvironmentFailed(f"{path} is another file", "choose another folder")
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#!/bin/sh\n{MARKER.decode()}\nexec {command} "$@"\n', "utf-8")
        path.chmod(0o755)
    except OSError as error:
        raise EnvironmentFailed(f"can't write {path}: {error}", "choose a writable folder") from error
    return path


def _heed_signals(contract: EngineContract, *, raising: bool) -> None:
    """Handle SIGINT and SIGTERM as the simulation says: exit with a code, or ignore them; otherwise they kill.

    With `raising`, one that is printed about raises Stopped.
    """
    described = simulation(contract)
    codes, told = described.signals, described.stopping if raising else {}
    for name in SIGNALS:
        code, otherwise = codes.get(name), signal.SIG_IGN if name in codes else signal.SIG_DFL
        exits = otherwise if code is None else lambda *_, code=code: os._exit(code)
        signal.signal(signal.Signals[name], _raise if name in told else exits)


def _raise(number: int, _frame: object) -> NoReturn:
    raise Stopped(signal.Signals(number).name)


def _exit_code(contract: EngineContract, name: str) -> int:
    """Return the exit code after a signal; it kills if there is none."""
    code = simulation(contract).signals.get(name)
    if code is None:
        number = signal.Signals[name]
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
    return code or 0


def _stdin() -> BinaryIO:
    """Open standard input anew: a thread that still reads when the process ends must not hold the interpreter's own."""
    return open(0, "rb", closefd=False)


def _write(stream: Stream, data: bytes) -> None:
    out = sys.stdout.buffer if stream == "stdout" else sys.stderr.buffer
    out.write(data)
    out.flush()


def _has_input(milliseconds: int) -> bool:
    return bool(select.select([sys.stdin], [], [], milliseconds / 1000)[0])


def _hang() -> NoReturn:
    while True:
        signal.pause()
