"""How much CPU time `turngate start` and `turngate resume` add to their engine, in milliseconds."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.tools.bench import trivial_engine
from tests.tools.bench.cpu import cpu_times
from tests.tools.bench.form import Tally
from tests.tools.bench.rows import Measure, Measured, Row, Target, measured

RUNS = Tally(full=15, short=2)
ROWS = tuple(
    Row(
        name,
        f"CPU time of `turngate {name}` with a trivial engine",
        "ms",
        "the engine alone",
        Target(90, Measure.ADDED),
    )
    for name in ("start", "resume")
)


def bench(*, short: bool) -> Iterator[Measured]:
    """Measure a minimal engine, run directly and by turngate, alternately."""
    runs = RUNS.of(short=short)
    with tempfile.TemporaryDirectory() as folder:
        engine = trivial_engine.install(folder, "done")
        env = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "TURNGATE_DATA_DIR": f"{folder}/data"}
        env["TURNGATE_CACHE_DIR"] = f"{folder}/cache"
        turngate = str(Path(sys.executable).with_name("turngate"))
        begun = subprocess.run(
            [turngate, "start", "codex", "--json", "hello"], env=env, check=True, capture_output=True
        )
        handle = json.loads(begun.stdout)["handle"]
        commands = {
            "the engine alone": [str(engine), "exec", "resume", trivial_engine.SESSION, "-"],
            "start": [turngate, "start", "codex", "hello"],
            "resume": [turngate, "resume", handle, "hello"],
        }
        alone, *added = cpu_times(commands, runs, env).values()
    for row, times in zip(ROWS, added, strict=True):
        yield measured(row.name, times, alone)
