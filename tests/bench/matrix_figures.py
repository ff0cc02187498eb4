"""How much longer a matrix of cached releases takes than its engines."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from turngate_probes.releases.pins import pinned_version

AIM = 1.3
VERSIONS = "latest:20"
SHORT_CLAUSE = "resume.context-carried"


def bench(*, short: bool) -> None:
    """Print wall against CPU seconds of probing the newest 20 releases of codex, installed first.

    Short: the pinned release and one clause.
    """
    which = ["--versions", str(pinned_version("codex")) if short else VERSIONS]
    clause = ["--clause", SHORT_CLAUSE] if short else []
    with tempfile.TemporaryDirectory() as results:
        _matrix(results, *which, "--level", "static")
        report = _matrix(results, *which, *clause)
    cpu, cores, wall = report["engine_seconds"], report["cores"], report["seconds"]
    verdicts = sorted({release["verdict"] or "no verdict" for release in report["releases"]})
    peak = report["peak_usage"]
    print(f"  {len(report['releases'])} releases of codex, {', '.join(verdicts)}; {cpu:.1f} s CPU of the engines")
    print(f"  at most {peak['cache_bytes'] / 1e9:.2f} GB of disk, {peak['memory_bytes'] / 1e9:.2f} GB of memory")
    ideal = cpu / cores
    ratio = wall / ideal
    print(f"  {wall:.1f} s wall; engines' CPU time over {cores} cores {ideal:.1f} s; ratio {ratio:.2f} (aim: {AIM})")


def _matrix(results: str, *args: str) -> Any:
    turngate = str(Path(sys.executable).with_name("turngate"))
    argv = (turngate, "matrix", "codex", "--results", results, "--json", *args)
    # 2: a release is unanswered, which the figures show
    done = subprocess.run(argv, check=False, capture_output=True)
    if not done.stdout:
        raise RuntimeError(done.stderr.decode())
    return json.loads(done.stdout)
