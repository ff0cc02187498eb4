"""How much longer a probe takes than its engines."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.tools.bench.rows import Measure, Measured, Row, Target, measured

PINNED = ("codex", "gemini", "opencode")
ROWS = (
    Row(
        "probe",
        "A probe of codex, gemini and opencode",
        "s",
        "the engines' CPU time divided by the cores",
        Target(1.1, Measure.RATIO),
    ),
)
SHORT_CLAUSE = "resume.context-carried"


def bench(*, short: bool) -> Iterator[Measured]:
    """Measure wall against CPU seconds of probing the pinned releases, installed first.

    Short: one of them, and one clause.
    """
    engines = PINNED[:1] if short else PINNED
    clause = ["--clause", SHORT_CLAUSE] if short else []
    turngate = str(Path(sys.executable).with_name("turngate"))
    subprocess.run([turngate, "engines", "install", *engines], check=True, capture_output=True)
    done = subprocess.run([turngate, "probe", *engines, *clause, "--json"], check=False, capture_output=True)
    if not done.stdout:
        raise RuntimeError(done.stderr.decode())
    report = json.loads(done.stdout)
    for release in report["releases"]:
        cpu, turns, verdict = release["engine_seconds"], release["turns"], release["verdict"] or "no verdict"
        print(f"  {release['release']:18} {turns:3} turns   {cpu:6.1f} s CPU of the engine   {verdict}")
    yield measured("probe", [report["seconds"]], [report["engine_seconds"] / report["cores"]])
