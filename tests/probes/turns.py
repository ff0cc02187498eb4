"""Handmade turns in codex's format, for tests of checks and events."""

import json
from typing import Any

from turngate.contract import load
from turngate.contract.engine_contract import EngineContract
from turngate.contract.verdict import Finding
from turngate.model import Ended, Mode
from turngate.process.sessions import Leftover
from turngate.turn.read import read_turn
from turngate_probes.clauses import CHECKS
from turngate_probes.harness.driver import QUESTION
from turngate_probes.harness.observations import CommandOutput, Observation, Observations, Turn
from turngate_probes.stub_model import Exchange

CODEX = load.contract("codex").at("0.169.0")
SESSION = "019a0000-0000-7000-8000-00000000000a"
ANOTHER = "019a0000-0000-7000-8000-00000000000b"


def nonce(name: str) -> str:
    """Return the nonce of the turn of this name."""
    return f"tgn-{name.replace('/', '-')}"


def exchange(*nonces: str, texts: tuple[str, ...] = (), **changes: Any) -> Exchange:
    """Return a request to the model backend that contains these nonces."""
    usual: dict[str, Any] = {
        "at": 1.0,
        "method": "POST",
        "path": "/v1/responses",
        "protocol": "openai.responses",
        "model": "stub-asked",
        "user_texts": texts,
        "nonces": nonces,
        "tools": ("shell",),
        "body": b"{}",
        "reply": "text",
        "size": 2,
    }
    return Exchange(**usual | changes)


def printed(session: str | None = SESSION, text: str | None = QUESTION, failure: str | None = None) -> bytes:
    """Return what codex prints in a turn; without a text or a failure, the turn is cut off."""
    events: list[dict[str, Any]] = [{"type": "thread.started", "thread_id": session}] if session else []
    events.append({"type": "turn.started"})
    if text is not None:
        events.append({"type": "item.completed", "item": {"type": "agent_message", "text": text}})
    if failure is not None:
        events.append({"type": "turn.failed", "error": {"message": failure}})
    elif text is not None:
        events.append({"type": "turn.completed"})
    return b"".join(json.dumps(event_).encode() + b"\n" for event_ in events)


def turn(
    name: str,
    stdout: bytes | None = None,
    *,
    stderr: bytes = b"",
    exit_code: int | None = 0,
    ended: Ended = Ended.EXIT,
    resumed: str | None = None,
    carries: tuple[str, ...] = (),
    mode: Mode = Mode.INTERACTIVE,
    **changes: Any,
) -> Turn:
    """Return a successful turn with the given changes; `carries` are earlier turns that its request contains."""
    stdout = printed() if stdout is None else stdout
    prompt = f"Ask me. {nonce(name)}"
    usual: dict[str, Any] = {
        "name": name,
        "argv": ("/opt/codex", "exec", "--json", "-"),
        "own_arguments": ("exec", "--json", "-"),
        "cwd": "/work",
        "mode": mode,
        "prompt": prompt,
        "nonce": nonce(name),
        "resumed": resumed,
        "scripted": QUESTION,
        "exit_code": exit_code,
        "ended": ended,
        "finished_at": 0.0,
        "seconds": 21.0,
        "cpu_seconds": 0.5,
        "exit_seconds": 0.1,
        "stdout": stdout,
        "stderr": stderr,
        "leftovers": (),
        "requests": (exchange(*map(nonce, carries), nonce(name), texts=(prompt,)),),
        "reading": read_turn(CODEX, mode, stdout, stderr, exit_code, resumed=resumed, ended=ended),
    }
    return Turn(**usual | changes)


def resumed(name: str, *carries: str, stdout: bytes | None = None, **changes: Any) -> Turn:
    """Return a successful resumed turn with the given changes."""
    return turn(name, stdout, **{"resumed": SESSION, "carries": carries} | changes)


def hung(name: str, **changes: Any) -> Turn:
    """Return a turn that was ended at its deadline."""
    return turn(name, printed(text=None), ended=Ended.STOPPED, exit_code=-15, **changes)


def refused(name: str, **changes: Any) -> Turn:
    """Return a turn that failed at once, with an error message, before it asked the model."""
    usual: dict[str, Any] = {"stdout": b"", "stderr": b"Error: no such thing\n", "exit_code": 1, "requests": ()}
    return turn(name, **usual | changes)


def page(name: str, stdout: str, exit_code: int = 0, ended: Ended = Ended.EXIT) -> CommandOutput:
    """Return the output of a plain command."""
    return CommandOutput(name, ("/opt/codex", "--help"), exit_code, ended, stdout.encode(), b"", 0.1)


def observed(*items: Observation, contract: EngineContract = CODEX, **rest: Any) -> Observations:
    """Return turns, pages and calls as the observations of a probe."""
    made = Observations(contract, **rest)
    for item in items:
        made.saw(item)
    return made


def check(clause: str, *items: Observation, **rest: Any) -> Finding:
    """Run the check of a clause on these observations."""
    return CHECKS[clause].run(observed(*items, **rest))


def leftover(*argv: str) -> Leftover:
    """Return a process that a turn left behind."""
    return Leftover(4711, argv, survived=False)
