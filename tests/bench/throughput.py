"""How fast a turn is read, compared to only parsing, over the same transcripts in one run."""

import json
import resource
import statistics
import time
from collections.abc import Callable, Iterator

import orjson

from tests.bench.form import Tally
from tests.bench.rows import Measure, Measured, Row, Target, measured
from tests.bench.transcript import chunks, grouped, lines
from turngate.contract import load
from turngate.contract.structs import EngineContract
from turngate.model import Mode
from turngate.turn.read import TurnReader

SIZE = Tally(full=200 * 10**6, short=10**6)
PEER = "`json.loads` per line"
FAST = Target(2, Measure.RATIO, least=True)
ROWS = (
    Row("reading.codex", "Reading tool calls of codex", "MB/s", PEER, FAST),
    Row("reading.opencode", "Reading one message of opencode in small parts", "MB/s", PEER, FAST),
)


def bench(*, short: bool) -> Iterator[Measured]:
    """Measure the turn reader and plain JSON on each transcript; print other yardsticks and the memory of reading."""
    size = SIZE.of(short=short)
    for name, contract, written in (
        ("reading.codex", load.contract("codex").at("0.169.0"), lines(size)),
        ("reading.opencode", load.contract("opencode").at(), grouped(size)),
    ):
        yield _compare(name, contract, list(chunks(written)), size)


def _compare(row: str, contract: EngineContract, parts: list[bytes], size: int) -> Measured:
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
    print(f"  {row}:")
    base = _peak()
    speeds = {}
    for name, way in ways.items():
        speeds[name] = [size / spent / 1e6 for spent in _timed(way)]
        if name.startswith("turngate"):
            print(f"  memory over the transcript's own: {_peak() - base:.0f} MB at its peak")
        print(f"  {name:22} {statistics.median(speeds[name]):7.0f} MB/s")
    return measured(row, speeds["turngate, whole turn"], speeds["json.loads per line"])


def _parse(parts: list[bytes], parse: Callable[[bytes], object]) -> None:
    for line in _lines(parts):
        parse(line)


def _lines(parts: list[bytes]) -> Iterator[bytes]:
    rest = b""
    for part in parts:
        *whole, rest = (rest + part).split(b"\n")
        yield from whole


def _timed(way: Callable[[], None]) -> list[float]:
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        way()
        seconds.append(time.perf_counter() - start)
    return seconds


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
