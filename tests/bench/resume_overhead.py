"""How much time `turngate resume` adds to its engine, in milliseconds."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.form import Tally
from tests.bench.rows import Measure, Measured, Row, Target, measured

RUNS = Tally(full=15, short=2)
ROWS = (Row("resume", "`turngate resume` with a trivial engine", "ms", "the engine alone", Target(90, Measure.ADDED)),)
SESSION = "01a20033-ee25-73a3-a8df-8b64e97dac81"
ENGINE = f"""#!/bin/sh
[ "$1" = --version ] && echo "codex-cli 0.169.0" && exit
cat > /dev/null
echo '{{"type": "thread.started", "thread_id": "{SESSION}"}}'
echo '{{"type": "item.completed", "item": {{"type": "agent_message", "text": "done"}}}}'
echo '{{"type": "turn.completed"}}'
"""


def bench(*, short: bool) -> Iterator[Measured]:
    """Measure a minimal engine, run directly and by turngate, alternately."""
    runs = RUNS.of(short=short)
    with tempfile.TemporaryDirectory() as folder:
        engine = Path(folder, "codex")
        engine.write_text(ENGINE)
        engine.chmod(0o755)
        env = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "TURNGATE_DATA_DIR": f"{folder}/data"}
        turngate = str(Path(sys.executable).with_name("turngate"))
        begun = subprocess.run(
            [turngate, "start", "codex", "--json", "hello"], env=env, check=True, capture_output=True
        )
        handle = json.loads(begun.stdout)["handle"]
        ways = {
            "the engine alone": [str(engine), "exec", "resume", SESSION, "-"],
            "turngate resume": [turngate, "resume", handle, "hello"],
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(runs):
            for name, argv in ways.items():
                times[name].append(_timed(argv, env))
    yield measured("resume", times["turngate resume"], times["the engine alone"])


def _timed(argv: list[str], env: dict[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run(argv, env=env, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    return (time.perf_counter() - start) * 1000
