"""Long turns of every engine, made of the records that a release printed."""

import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

FIXTURES = Path(__file__).parents[3] / "fixtures"
CHUNK = 64 * 2**10
SAID = '{"outcome": "final", "final_data": {"colour": "blue"}}'  # the recorded answer
DELTAS = (SAID[:28], SAID[28:])
DELTAS_PER_ANSWER = 20
OUTPUT_LINES = (0, 1, 3, 10, 40, 200)
ASCII = (
    *("session", "resume", "the", "of", "engine", "if", "answer:", "return", "import", "value", "error", "a", "file"),
    *('"name":', "self.turn", "=", "{", "}", "->", "`main.py`", "src\\win", "0x7f", "12", "\t"),
)
WORDS = (*ASCII, "naïve", "…")


class Recorded(NamedTuple):
    """A recorded turn that calls a tool, and how to prolong it.

    The lines from `start` to before `stop`, counted from 0, are repeated; no lines: the answer is prolonged instead.
    `output` is the recorded output of the tool. `end` is a recording of the same release whose last line ends the turn;
    empty: the lines from `stop` on do.
    """

    release: str
    start: int = 0
    stop: int = 0
    output: str = ""
    end: str = ""


RECORDED = {
    "codex": Recorded("0.169.0", 3, 6, "/bin/bash: line 1: touched.txt: Read-only file system\n"),
    "gemini": Recorded("0.61.0"),
    "iflow": Recorded("0.5.19"),
    "opencode": Recorded("1.18.33", 0, 5, "The arguments provided to the tool are invalid"),
    "claude": Recorded("2.1.330"),
    "qwen": Recorded("0.24.4", 2, 5, "that permission was declined."),
    "copilot": Recorded("1.0.102", 6, 24, "Tool 'create' does not exist."),
    "kilo": Recorded("7.7.7", 0, 5, "Model tried to call unavailable tool 'write'."),
    "grok": Recorded("1.0.41", 1, 3, "Denied by permission policy"),
    "pi": Recorded("0.87.1", 7, 25, "Tool write not found"),
}


def printed(engine: str, stream: str, recording: str = "tool-call-first") -> bytes:
    """Return a stream of a recording."""
    return (FIXTURES / engine / RECORDED[engine].release / recording / stream).read_bytes()


def turn(engine: str, size: int, seed: int = 1) -> Iterator[bytes]:
    """Return the stdout of a turn of about `size` bytes: calls of tools, large outputs, deltas and messages."""
    chance, recorded = random.Random(seed), RECORDED[engine]
    lines = printed(engine, "stdout").splitlines(keepends=True)
    if recorded.start == recorded.stop:
        text = "\n".join(_words(chance, 30) for _ in range(size // 180))
        yield from (line.replace(_json(SAID), _json(text)).replace(SAID.encode(), text.encode()) for line in lines)
        return
    yield from lines[: recorded.start]
    written = 0
    while written < size:
        for line in _step(chance, lines[recorded.start : recorded.stop], recorded.output):
            written += len(line)
            yield line
    end = printed(engine, "stdout", recorded.end).splitlines(keepends=True)[-1:] if recorded.end else None
    yield from end or lines[recorded.stop :]


def grouped(engine: str, size: int, seed: int = 1) -> Iterator[bytes]:
    """Return the stdout of a turn of about `size` bytes whose one message comes in many small parts."""
    chance = random.Random(seed)
    *before, part, end = printed(engine, "stdout").splitlines(keepends=True)
    yield from before
    for _ in range(size // len(part)):
        yield part.replace(_json(SAID), _json(_words(chance, 4)))
    yield end


def chunks(written: Iterable[bytes]) -> Iterator[bytes]:
    """Split a transcript into chunks that end anywhere, as a pipe does."""
    rest = b""
    for line in written:
        rest += line
        whole = len(rest) - len(rest) % CHUNK
        yield from (rest[at : at + CHUNK] for at in range(0, whole, CHUNK))
        rest = rest[whole:]
    yield rest


def _step(chance: random.Random, lines: list[bytes], output: str) -> Iterator[bytes]:
    """Return the lines of one step: texts get an ordinary length, the tool any output, and deltas many lines."""
    reported = _json("\n".join(_words(chance, 9) for _ in range(chance.choice(OUTPUT_LINES))))
    for recorded in lines:
        line = recorded.replace(_json(output), reported).replace(
            _json(SAID), _json(_words(chance, chance.randint(5, 40)))
        )
        delta = next((delta for delta in map(_json, DELTAS) if delta in line), b"")
        for _ in range(DELTAS_PER_ANSWER if delta else 1):
            yield line.replace(delta, _json(_words(chance, 3))) if delta else line


def _words(chance: random.Random, number: int) -> str:
    return " ".join(chance.choices(ASCII if chance.random() < 0.95 else WORDS, k=number))


def _json(text: str) -> bytes:
    """Return a text as engines print it inside a JSON string."""
    return json.dumps(text, ensure_ascii=False).encode()[1:-1]
