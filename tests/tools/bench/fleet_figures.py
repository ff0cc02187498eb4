"""The example fleet with 1, 2 and 4 workers on this machine, next to the reference server."""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.tools.bench.form import Tally
from tests.tools.bench.rows import Measured, Row, measured
from tests.tools.bench.served import CREATE, make_home, reply, serving

ROOT = Path(__file__).parents[3]
FLEET = ROOT / "reference/examples/fleet"
RUNS = Tally(full=200, short=2)
PEER = "`turngate serve`"
WORKERS = (1, 2, 4)
ROWS = tuple(
    Row(
        f"fleet.{count}",
        f"Turns of a trivial engine by {count} worker{'s' * (count > 1)} of the fleet",
        "turns/s",
        PEER,
    )
    for count in WORKERS
)


def bench(*, short: bool) -> Iterator[Measured]:
    """Run conversations of two turns on the server, then on the fleet; both may run four new turns at once."""
    count = RUNS.of(short=short)
    with tempfile.TemporaryDirectory() as folder:
        env = make_home(Path(folder))
        served = _served(Path(folder) / "data", env, count)
        by_workers = _fleet(env, count)
    for row, workers in zip(ROWS, WORKERS, strict=True):
        yield measured(row.name, [by_workers[str(workers)]], [served])


def _served(data: Path, env: dict[str, str], count: int) -> float:
    """Return the turns a second of a server."""
    with serving(data, env) as served:
        start = time.perf_counter()
        runs = [served.ask("POST", "/v1/runs", CREATE)[1]["run_id"] for _ in range(count)]
        for run in runs:
            served.until(run, "waiting_user")
            reply(served, run)
        for run in runs:
            served.until(run, "succeeded")
        return 2 * count / (time.perf_counter() - start)


def _fleet(env: dict[str, str], count: int) -> dict[str, float]:
    """Return the turns a second of each number of workers; the environment of the example is made if it is missing."""
    home = ROOT / "build/fleet"
    subprocess.run(
        [FLEET / "fleet", "--help"], env=os.environ | {"FLEET_HOME": str(home)}, check=True, capture_output=True
    )
    command = [str(home / "venv/bin/python"), str(FLEET / "tests/throughput.py"), str(count)]
    ran = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True)
    rates: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return rates
