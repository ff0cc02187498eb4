"""How fast a turn is read, compared to only parsing, over the same transcripts in one run."""

import json
import resource
import time
from collections.abc import Callable, Iterator

import orjson

from tests.bench.form import Tally
from tests.bench.transcript import chunks, grouped, lines
from turngate.contract import load
from turngate.contract.structs import EngineContract
from turngate.model import Mode
from turngate.turn.read import TurnReader

SIZE = Tally(full=200 * 10**6, short=10**6)


def bench(*, short: bool) -> None:
    """Print MB/s of the turn reader and three yardsticks, and the memory of reading, for each transcript."""
    size = SIZE.of(short=short)
    for title, contract, written in (
        ("tool calls of codex", load.contract("codex").at("0.169.0"), lines(size)),
        ("one message of opencode in small parts", load.contract("opencode").at(), grouped(size)),
    ):
        _compare(title, contract, list(chunks(written)), size)


def _compare(title: str, contract: EngineContract, parts: list[bytes], size: int) -> None:
    def read() -> None:
        reader = TurnReader(contract, Mode.INTERACTIVE)
        for part in parts:
            reader.feed("stdout", part)
        if not reader.finish(0).ended:
            raise ValueError("the transcript was not read to its end")

    ways: dict[str, Callable[[], None]] = {
        "turngate, whole turn": read,
        "json.loads per line": lambda: _parse(parts, json.loads),
        "orjson.loads per line": lambda: _parse(parts, orjson.loads),
        "bytes alone": lambda: _parse(parts, len),
    }
    print(f"  {title}:")
    base = _peak()
    seconds = {}
    for name, way in ways.items():
        seconds[name] = _timed(way)
        if name.startswith("turngate"):
            print(f"  memory over the transcript's own: {_peak() - base:.0f} MB at its peak")
    yardstick = seconds["json.loads per line"]
    for name, spent in seconds.items():
        print(f"  {name:22} {size / spent / 1e6:7.0f} MB/s   {yardstick / spent:5.2f} x json.loads")


def _parse(parts: list[bytes], parse: Callable[[bytes], object]) -> None:
    for line in _lines(parts):
        parse(line)


def _lines(parts: list[bytes]) -> Iterator[bytes]:
    rest = b""
    for part in parts:
        *whole, rest = (rest + part).split(b"\n")
        yield from whole


def _timed(way: Callable[[], None]) -> float:
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        way()
        best = min(best, time.perf_counter() - start)
    return best


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
