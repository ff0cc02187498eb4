"""A long transcript of realistic events, as from a turn with many tool calls."""

import json
import random
from collections.abc import Iterable, Iterator

CHUNK = 64 * 2**10
WORDS = ("session", "resume", "turn", "engine", "the", "handle", "answer", "file", "of", "error", "value", "import")


def lines(size: int, seed: int = 1) -> Iterator[bytes]:
    """Return `size` bytes of Codex events as NDJSON lines: commands, messages, reasoning."""
    chance = random.Random(seed)
    yield _line({"type": "thread.started", "thread_id": "01a20033-ee25-73a3-a8df-8b64e97dac81"})
    yield _line({"type": "turn.started"})
    written, number = 0, 0
    while written < size:
        number += 1
        line = _line(_event(chance, number))
        written += len(line)
        yield line
    yield _line({"type": "item.completed", "item": {"id": "item_last", "type": "agent_message", "text": "done"}})
    yield _line({"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 1}})


def grouped(size: int) -> Iterator[bytes]:
    """Return `size` bytes of OpenCode events as NDJSON lines: one message in many small parts."""
    session = "ses_0123456789abABCDEFGHIJKLMN"
    line = _line({"type": "text", "sessionID": session, "part": {"messageID": "msg_1", "text": "a few words more "}})
    yield _line({"type": "step_start", "sessionID": session, "part": {"id": "prt_1"}})
    for _ in range(size // len(line)):
        yield line
    yield _line({"type": "step_finish", "sessionID": session, "part": {"reason": "stop"}})


def chunks(written: Iterable[bytes]) -> Iterator[bytes]:
    """Split a transcript into chunks that end anywhere, as a pipe does."""
    rest = b""
    for line in written:
        rest += line
        while len(rest) >= CHUNK:
            yield rest[:CHUNK]
            rest = rest[CHUNK:]
    yield rest


def _event(chance: random.Random, number: int) -> dict[str, object]:
    said = " ".join(chance.choices(WORDS, k=chance.randint(5, 40)))
    item: dict[str, object] = {"id": f"item_{number}", "type": "agent_message", "text": said}
    kind = "item.completed"
    if chance.random() < 0.6:
        output = "\n".join(" ".join(chance.choices(WORDS, k=9)) for _ in range(chance.randint(0, 40)))
        kind = chance.choice(["item.started", "item.completed"])
        item = {
            "id": f"item_{number}",
            "type": "command_execution",
            "command": f"/bin/bash -c 'grep -n \"{said[:30]}\" -r .'",
            "aggregated_output": output if kind == "item.completed" else "",
            "exit_code": 0 if kind == "item.completed" else None,
            "status": "completed",
        }
    return {"type": kind, "item": item}


def _line(event: dict[str, object]) -> bytes:
    return json.dumps(event).encode() + b"\n"
