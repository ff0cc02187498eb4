"""How much longer a matrix of cached releases takes than its engines."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.tools.bench.rows import Measure, Measured, Row, Target, measured
from turngate_probes.releases.pins import pinned_version

ROWS = (
    Row(
        "matrix",
        "A matrix of 20 releases of codex",
        "s",
        "the engines' CPU time divided by the cores",
        Target(1.1, Measure.RATIO),
    ),
)
VERSIONS = "latest:20"
SHORT_CLAUSE = "resume.context-carried"


def bench(*, short: bool) -> Iterator[Measured]:
    """Measure wall against CPU seconds of probing the newest 20 releases of codex, installed first.

    Short: the pinned release and one clause.
    """
    which = ["--versions", str(pinned_version("codex")) if short else VERSIONS]
    clause = ["--clause", SHORT_CLAUSE] if short else []
    with tempfile.TemporaryDirectory() as results:
        _matrix(results, *which, "--level", "static")
        report = _matrix(results, *which, *clause)
    verdicts = sorted({release["verdict"] or "no verdict" for release in report["releases"]})
    peak = report["peak_usage"]
    print(f"  {len(report['releases'])} releases of codex, {', '.join(verdicts)}")
    print(f"  at most {peak['cache_bytes'] / 1e9:.2f} GB of disk, {peak['memory_bytes'] / 1e9:.2f} GB of memory")
    yield measured("matrix", [report["seconds"]], [report["engine_seconds"] / report["cores"]])


def _matrix(results: str, *args: str) -> Any:
    turngate = str(Path(sys.executable).with_name("turngate"))
    argv = (turngate, "matrix", "codex", "--results", results, "--json", *args)
    # 2: a release is unanswered, which the figures show
    done = subprocess.run(argv, check=False, capture_output=True)
    if not done.stdout:
        raise RuntimeError(done.stderr.decode())
    return json.loads(done.stdout)
