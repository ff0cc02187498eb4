"""How long the command's help takes, in milliseconds."""

import statistics
import subprocess
import sys
import time
from pathlib import Path

from tests.bench.form import Tally

RUNS = Tally(full=15, short=2)


def bench(*, short: bool) -> None:
    """Print the median milliseconds of the help, of a bare interpreter, and of one that imports click."""
    runs = RUNS.of(short=short)
    turngate = str(Path(sys.executable).with_name("turngate"))
    ways = {
        "turngate --help": [turngate, "--help"],
        "python -c pass": [sys.executable, "-c", "pass"],
        "python -c 'import click'": [sys.executable, "-c", "import click"],
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(runs):
        for name, argv in ways.items():
            start = time.perf_counter()
            subprocess.run(argv, check=True, capture_output=True)
            times[name].append((time.perf_counter() - start) * 1000)
    for name, taken in times.items():
        print(f"  {name:26} {statistics.median(taken):6.0f} ms median, {min(taken):4.0f} ms at best, {runs} runs")
