"""Runs the real CLI in place of the executable, passes its streams and signals on, and records the call."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, BinaryIO

import msgspec
from msgspec.structs import replace

from turngate import EngineContract, read_turn
from turngate.decoding import decode
from turngate_probes.conform.calls import MAX_WORDS, CallRecord, Started
from turngate_probes.conform.plan import HOME, ConformPlan
from turngate_probes.conform.recorded_stdin import RecordedStdin

_PR_SET_PDEATHSIG = 1
CHUNK = 2**16


def run(plan: ConformPlan, contract: EngineContract, record: CallRecord, started: Started) -> int:
    """Run the call; return the exit code of the CLI, which alone decides whether it refuses its arguments."""
    # never the HOME that COMMAND chose: it may be the user's, with a login and settings
    types = started.stdin == "terminal" and started.prompt is not None
    is_home = Path(os.environ["HOME"]) == Path(plan.folder, HOME)
    process = subprocess.Popen(
        (plan.real, *started.argv),
        env={**os.environ, **(plan.real_env if is_home else plan.elsewhere)},
        preexec_fn=_die_with_parent,  # noqa: PLW1509 - no thread runs yet
        stdin=None if types else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )

    def pass_on(number: int, _frame: object) -> None:
        record.signalled(signal.Signals(number).name)
        process.send_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, pass_on)
    kept = {name: bytearray() for name in ("stdout", "stderr")}
    note = record.printed if started.kind == "process" else None
    outputs = [
        threading.Thread(target=_copy, args=(process.stdout, sys.stdout.buffer, kept["stdout"], note)),
        threading.Thread(target=_copy, args=(process.stderr, sys.stderr.buffer, kept["stderr"])),
    ]
    if process.stdin:
        threading.Thread(target=_feed, args=(RecordedStdin(record), process.stdin), daemon=True).start()
    for thread in outputs:
        thread.start()
    code = process.wait()
    for thread in outputs:
        thread.join()
    session = read_turn(contract, "auto", as_lines(bytes(kept["stdout"])), bytes(kept["stderr"]), code).session
    handle = session.handle_value if session else None
    if handle:
        record.session(handle)
    if started.kind == "refused":
        record.begin(_as_decided(started, accepted=not code or handle is not None, printed=bytes(kept["stderr"])))
    record.end(handle, code, bytes(kept["stdout"]), bytes(kept["stderr"]))
    return code if code >= 0 else 128 - code


def _as_decided(started: Started, *, accepted: bool, printed: bytes) -> Started:
    """Return what is known of a call whose arguments turngate can't read, once the CLI has accepted or refused them."""
    if accepted:
        return replace(started, kind="unknown", problem=f"turngate can't read its arguments ({started.problem})")
    words = printed.decode("utf-8", "replace").split("\n")
    return replace(started, problem=next(filter(None, map(str.strip, words)), started.problem)[:MAX_WORDS])


def as_lines(printed: bytes) -> bytes:
    """Return records that were printed as one list as a line each; other output is unchanged."""
    if not printed.startswith(b"[{"):
        return printed
    try:
        return b"\n".join(decode(printed, list[msgspec.Raw]))
    except msgspec.DecodeError:
        return printed


def _copy(source: "IO[bytes]", to: BinaryIO, kept: bytearray, note: Callable[[bytes], None] | None = None) -> None:
    """Copy a stream as its bytes arrive."""
    while chunk := os.read(source.fileno(), CHUNK):
        kept += chunk
        if note:
            note(chunk)
        to.write(chunk)
        to.flush()


def _feed(received: RecordedStdin, to: "IO[bytes]") -> None:
    """Pass standard input on, and its end."""
    buffer = bytearray(CHUNK)
    try:
        while taken := received.readinto(buffer):
            to.write(bytes(buffer[:taken]))
            to.flush()
        to.close()
    except OSError:
        pass  # the CLI does not read it


def _die_with_parent() -> None:
    """Have the kernel end the CLI if this process is killed, which an orchestrator takes for the CLI."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
