"""How much CPU time the commands take that a person waits for: help, and what is known of the engines here."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.tools.bench.cpu import cpu_times
from tests.tools.bench.form import Tally
from tests.tools.bench.rows import Measured, Row, Target, measured
from turngate import history

RUNS = Tally(full=15, short=2)
PEER = "python -c 'import click'"
ROWS = (
    Row("help", "CPU time of `turngate --help`", "ms", f"`{PEER}`", Target(100)),
    Row("doctor", "CPU time of `turngate doctor` with an engine on PATH and a pin", "ms", f"`{PEER}`", Target(300)),
)


def bench(*, short: bool) -> Iterator[Measured]:
    """Measure each command alternately with an interpreter that imports click, which they need."""
    turngate, peer = str(Path(sys.executable).with_name("turngate")), [sys.executable, "-c", "import click"]
    runs = RUNS.of(short=short)
    yield measured("help", *cpu_times({"help": [turngate, "--help"], PEER: peer}, runs).values())
    with TemporaryDirectory() as folder:
        project, env = _project(Path(folder))
        doctor = ["env", "-C", str(project), turngate, "doctor"]
        cpu_times({"doctor": doctor}, 1, env)
        yield measured("doctor", *cpu_times({"doctor": doctor, PEER: peer}, runs, env).values())


def _project(folder: Path) -> tuple[Path, dict[str, str]]:
    """Make a project that pins an engine, and put another one on PATH."""
    versions = {engine: safe.version for engine in ("codex", "gemini") if (safe := history.load(engine).newest_safe())}
    codex, project = folder / "bin/codex", folder / "project"
    codex.parent.mkdir()
    codex.write_text(f"#!/bin/sh\necho codex-cli {versions['codex']}\n")
    codex.chmod(0o755)
    project.mkdir()
    (project / "package.json").write_text(f'{{"dependencies": {{"@google/gemini-cli": "{versions["gemini"]}"}}}}')
    path = f"{codex.parent}:{os.defpath}"
    return project, {**os.environ, "PATH": path, "TURNGATE_CACHE_DIR": str(folder / "cache")}
