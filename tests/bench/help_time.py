"""How much CPU time the command's help takes, in milliseconds."""

import sys
from collections.abc import Iterator
from pathlib import Path

from tests.bench.cpu import cpu_times
from tests.bench.form import Tally
from tests.bench.rows import Measured, Row, Target, measured

RUNS = Tally(full=15, short=2)
PEER = "python -c 'import click'"
ROWS = (Row("help", "CPU time of `turngate --help`", "ms", f"`{PEER}`", Target(100)),)


def bench(*, short: bool) -> Iterator[Measured]:
    """Measure the help alternately with an interpreter that imports click, which the help needs."""
    commands = {
        "help": [str(Path(sys.executable).with_name("turngate")), "--help"],
        PEER: [sys.executable, "-c", "import click"],
    }
    yield measured("help", *cpu_times(commands, RUNS.of(short=short)).values())
