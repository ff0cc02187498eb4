"""A turn on a server as it was observed: the real start of the engine, and what the server says and saves of it."""

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from turngate.model import Mode, Outcome
from turngate.process import Ended, Leftover, tagged
from turngate.turn.read import read_turn
from turngate_probes.harness.driver import EngineDriver
from turngate_probes.harness.observations import Turn
from turngate_probes.harness.sandbox import Sandbox, inherited
from turngate_probes.server_level.shim import Start
from turngate_probes.stub_model import Exchange, Reply, Text, new_nonce

DATA = "data"
_PARTS = 3  # of a line of a trace: the time, the direction, what was said


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the user says, the nonce in it, and what the model is to reply."""

    text: str
    nonce: str
    reply: Reply

    @classmethod
    def of(cls, said: str, reply: Reply) -> "Prompt":
        """Add a nonce to what is said."""
        nonce = new_nonce()
        return cls(f"{said} {nonce}", nonce, reply)


def turn_of(
    driver: EngineDriver,
    number: int,
    start: Start,
    prompt: Prompt,
    run: Mapping[str, Any],
    told: Mapping[str, Any],
    requests: tuple[Exchange, ...],
) -> Turn:
    """Put together one turn of a run: `run` and `told` are what the API says of the run and of the turn."""
    contract, sandbox = driver.contract, driver.sandbox
    session = (run.get("engine_session_handle") or {}).get("handle_value") if number > 1 else None
    stdout, stderr = (trace(sandbox, run, number, name) for name in ("stdout", "stderr"))
    ended = _ended(run, told)
    return Turn(
        name=f"{driver.case}/turn-{number}", argv=(contract.executable, *start.arguments),
        own_arguments=tuple(told.get("argv") or ()), cwd=start.cwd, mode=Mode.INTERACTIVE,
        prompt=prompt.text, nonce=prompt.nonce, resumed=session,
        scripted=prompt.reply.text if isinstance(prompt.reply, Text) else "",
        exit_code=told.get("exit_code"),
        ended=ended,
        finished_at=time.time(), seconds=told.get("seconds") or 0.0, cpu_seconds=0.0,
        stdout=stdout, stderr=stderr, leftovers=alive(start.tag), requests=requests,
        reading=read_turn(
            contract, Mode.INTERACTIVE, stdout, stderr, told.get("exit_code"),
            turn_index=number, resumed=session, ended=ended,
        ),
        turn_index=number, env=tuple(sorted(set(sandbox.env(contract.hermetic, sandbox.work)) - inherited())),
    )  # fmt: skip


def _ended(run: Mapping[str, Any], told: Mapping[str, Any]) -> Ended:
    if (told.get("failure") or {}).get("code") == "TURN_TIMEOUT":
        return Ended.TIMEOUT
    if run.get("state") == "canceled":
        return Ended.STOPPED
    kept = (run.get("interactive_profile") or {}).get("kind") == "sticky_process"
    went_well = told.get("outcome") in (Outcome.ASK_USER, Outcome.FINAL)
    return Ended.LINGERED if went_well and told.get("exit_code") is None and not kept else Ended.EXIT


def printed(protocol: bytes) -> bytes:
    """Return what a sticky process printed, out of the trace of its protocol."""
    lines = (line.split(b" ", 2) for line in protocol.splitlines(keepends=True))
    return b"".join(line[2] for line in lines if line[1:2] == [b"<"] and len(line) == _PARTS)


def trace(sandbox: Sandbox, run: Mapping[str, Any], number: int, stream: str) -> bytes:
    """Return what the server kept of an engine's output; nothing if it kept none."""
    with suppress(OSError):
        folder = sandbox.root / DATA / "runs" / str(run["run_id"]) / ".turngate" / f"attempt-{number:03}"
        return (folder / stream).read_bytes()
    return b""


def alive(tag: str) -> tuple[Leftover, ...]:
    """Find what still runs of a turn."""
    own = {tag.rpartition("/")[2]}  # after those of the runs around it
    return tuple(Leftover.of(process, survived=True) for process in tagged(own))
