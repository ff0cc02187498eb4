"""Measures a fleet on this machine: python throughput.py RUNS prints the turns a second of 4, 2 and 1 workers as JSON.

The engine is the `codex` on PATH, which asks once. A run is started, answered as soon as it asks, and succeeds.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dbos import DBOS
from turngate_fleet.postgres import postgres
from turngate_fleet.runs import Fleet

from turngate import TurnInput

POLL = 0.05


def turns_per_second(fleet: Fleet, runs: int) -> float:
    """Return how fast runs of two turns end, from the first start to the last answer."""
    began = time.perf_counter()
    started = {fleet.start(TurnInput("codex", "hello", "", timeout=60)) for _ in range(runs)}
    left = set(started)
    while left:
        for run in fleet.recent():
            if run.id in left and run.turn == 1 and run.state == "waiting_user":
                fleet.reply(run, "red")
            elif run.id in left and run.state == "succeeded":
                left.remove(run.id)
            elif run.id in left and run.error:
                sys.exit(run.error)
        time.sleep(POLL)
    return 2 * runs / (time.perf_counter() - began)


def main() -> None:
    """Measure with fewer and fewer workers."""
    runs = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        home.chmod(0o711)  # PostgreSQL runs as another user if this runs as root
        with postgres(home) as url:
            DBOS.migrate(url)
            env = os.environ | {"FLEET_HOME": folder, "FLEET_DATABASE": url}
            command = [sys.executable, "-m", "turngate_fleet", "worker"]
            workers = [subprocess.Popen([*command, f"w{number}"], env=env) for number in range(4)]
            fleet, measured = Fleet(url), dict[int, float]()
            try:
                for number in range(4):  # each works already when the time is taken
                    fleet.wait(fleet.start(TurnInput("codex", "hello", "", timeout=60), f"w{number}"))
                while workers:
                    if len(workers) in {4, 2, 1}:
                        measured[len(workers)] = turns_per_second(fleet, runs)
                    workers[-1].terminate()
                    workers.pop().wait()
            finally:
                for worker in workers:
                    worker.terminate()
                    worker.wait()
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
