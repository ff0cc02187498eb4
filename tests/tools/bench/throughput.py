"""How fast a turn is read, compared to only parsing, over the same transcripts in one run."""

import json
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial

import orjson

from tests.tools.bench.form import Tally
from tests.tools.bench.rows import Measure, Measured, Row, Target, measured
from tests.tools.bench.transcript import RECORDED, chunks, grouped, printed, turn
from turngate.contract import load
from turngate.contract.engine_contract import EngineContract
from turngate.model import Mode
from turngate.turn.read import TurnReader

SIZE = Tally(full=10 * 10**6, short=10**5)
ROUNDS = Tally(full=5, short=1)
PEER = "`json.loads` per record"
FAST = Target(2, Measure.RATIO, least=True)
IN_PARTS = ("opencode", "kilo")
ROWS = (
    *(Row(f"reading.{name}", f"Reading a long turn of {name}", "MB/s", PEER, FAST) for name in RECORDED),
    *(
        Row(f"reading.{name}-parts", f"Reading small parts of a message of {name}", "MB/s", PEER, FAST)
        for name in IN_PARTS
    ),
)


def bench(*, short: bool) -> Iterator[Measured]:
    """Measure the turn reader and plain JSON on each transcript; print other yardsticks and the memory of reading."""
    size, rounds = SIZE.of(short=short), ROUNDS.of(short=short)
    for name in RECORDED:
        yield _compare(f"reading.{name}", name, list(chunks(turn(name, size))), rounds)
    for name in IN_PARTS:
        yield _compare(f"reading.{name}-parts", name, list(chunks(grouped(name, size))), rounds)


def _compare(row: str, engine: str, parts: list[bytes], rounds: int) -> Measured:
    contract = load.contract(engine).at(RECORDED[engine].release)
    lines = _lines if contract.stream("stdout").framing == "ndjson" else _texts
    if contract.stream("stdout").framing == "json_document":
        lines = _document
    ways: dict[str, Callable[[], object]] = {
        "turngate": partial(_read, contract, parts, printed(engine, "stderr")),
        "json.loads": lambda: [None for line in lines(parts) if json.loads(line) is None],
        "orjson.loads": lambda: [None for line in lines(parts) if orjson.loads(line) is None],
    }
    size, held = sum(map(len, parts)), _peak(ways["turngate"])
    print(f"  {row}, {size / 1e6:.1f} MB; reading it takes {held / 1e6:.1f} MB of memory at its peak")
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            start = time.process_time()
            way()
            speeds[name].append(size / (time.process_time() - start) / 1e6)
    for name, figures in speeds.items():
        print(f"  {name:12} {statistics.median(figures):7.0f} MB/s")
    return measured(row, speeds["turngate"], speeds["json.loads"])


def _read(contract: EngineContract, parts: list[bytes], stderr: bytes) -> None:
    reader = TurnReader(contract, Mode.AUTO)
    for part in parts:
        reader.feed("stdout", part)
    reader.feed("stderr", stderr)
    reading = reader.finish(0)
    if reading.result.failure_reason or reading.framing:
        raise ValueError(f"the transcript was not read: {reading.result.failure_reason or reading.framing}")


def _lines(parts: list[bytes]) -> Iterator[bytes]:
    rest = b""
    for part in parts:
        *whole, rest = (rest + part).split(b"\n")
        yield from whole


def _texts(parts: list[bytes]) -> Iterator[bytes]:
    """Return lines of plain text as JSON."""
    return (b'"%s"' % line.replace(b"\\", b"/").replace(b'"', b"'").replace(b"\t", b" ") for line in _lines(parts))


def _document(parts: list[bytes]) -> Iterator[bytes]:
    yield b"".join(parts)


def _peak(action: Callable[[], object]) -> int:
    """Return the most bytes that an action holds; the process's own peak would hide it behind earlier benches."""
    tracemalloc.start()
    action()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak
