"""How long the command's help takes, in milliseconds."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.form import Tally
from tests.bench.rows import Measured, Row, Target, measured

RUNS = Tally(full=15, short=2)
PEER = "python -c 'import click'"
ROWS = (Row("help", "`turngate --help`", "ms", f"`{PEER}`", Target(100)),)


def bench(*, short: bool) -> Iterator[Measured]:
    """Measure the help alternately with an interpreter that imports click, which the help needs."""
    runs = RUNS.of(short=short)
    turngate = str(Path(sys.executable).with_name("turngate"))
    ways = {
        "turngate --help": [turngate, "--help"],
        PEER: [sys.executable, "-c", "import click"],
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(runs):
        for name, argv in ways.items():
            start = time.perf_counter()
            subprocess.run(argv, check=True, capture_output=True)
            times[name].append((time.perf_counter() - start) * 1000)
    yield measured("help", *times.values())
