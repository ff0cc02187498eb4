"""How much time a scenario of `turngate conform` adds to the orchestrator's own time."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.tools.bench import trivial_engine
from tests.tools.bench.form import Tally
from tests.tools.bench.rows import Measure, Measured, Row, Target, measured
from turngate_probes.conform.catalogue import scenarios

RUNS = Tally(full=10, short=1)
ROWS = (
    Row(
        "conform.scenario",
        "A scenario of `turngate conform`",
        "ms",
        "the orchestrator alone",
        Target(150, Measure.ADDED),
    ),
    Row(
        "conform.all",
        "All scenarios one by one",
        "s",
        "their hangs and delays",
        Target(60, Measure.ADDED),
    ),
)
SHORT = ("--scenario", "two-turns")
ORCHESTRATOR = Path(__file__).parents[2] / "conform/orchestrators/correct.py"
ANSWER = json.dumps({"final_data": {"answer": "red"}})


def bench(*, short: bool) -> Iterator[Measured]:
    """Measure a scenario against the same orchestrator with a minimal engine, and the whole set beyond its waits."""
    runs = RUNS.of(short=short)
    with tempfile.TemporaryDirectory() as folder:
        trivial_engine.install(folder, ANSWER)
        own = [_alone(folder) for _ in range(runs)]
    scenario = [_conform(*SHORT)["results"][0]["seconds"] for _ in range(runs)]
    yield measured("conform.scenario", [one * 1000 for one in scenario], [one * 1000 for one in own])
    whole = _conform(*SHORT) if short else _conform()
    yield measured("conform.all", [whole["seconds"]], [sum(one.seconds for one in scenarios().values())])


def _alone(folder: str) -> float:
    """Return the seconds of one conversation with the minimal engine."""
    prompt = Path(folder, "prompt")
    prompt.write_text("Ask me.")
    env = os.environ | {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "TURNGATE_WORKSPACE": folder,
        "TURNGATE_PROMPT_FILE": str(prompt),
        "TURNGATE_REPLY": "red",
        "TURNGATE_DEADLINE_SEC": "60",
    }
    start = time.perf_counter()
    subprocess.run([sys.executable, ORCHESTRATOR], env=env, check=True, capture_output=True)
    return time.perf_counter() - start


def _conform(*options: str) -> dict[str, Any]:
    turngate = str(Path(sys.executable).with_name("turngate"))
    command = [turngate, "conform", *options, "--json", "--", sys.executable, str(ORCHESTRATOR)]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
