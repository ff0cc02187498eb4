"""How long a report of many releases takes, compared with reading and writing its JSON."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.probes.report import samples
from tests.tools.bench.form import Tally
from tests.tools.bench.rows import Measured, Row, Target, measured
from turngate_probes.report.publish import json_text

RELEASES = Tally(full=139, short=2)
RUNS = Tally(full=5, short=1)
ROWS = (Row("report", "JSON and HTML report of 139 releases", "s", "plain `json` in Python", Target(2)),)
PLAIN = "import json, sys; print(json.dumps(json.load(open(sys.argv[1])), indent=2))"


def bench(*, short: bool) -> Iterator[Measured]:
    """Measure rendering a saved report, alternately with only reading and writing its JSON."""
    with tempfile.TemporaryDirectory() as folder:
        source, page = Path(folder, "report.json"), Path(folder, "report.html")
        source.write_text(json_text(samples.many(RELEASES.of(short=short))))
        turngate = str(Path(sys.executable).with_name("turngate"))
        ways = {
            # 1: some of the releases are broken
            (turngate, "report", str(source), "--json", "--report", str(page)): 1,
            (sys.executable, "-c", PLAIN, str(source)): 0,
        }
        taken: dict[tuple[str, ...], list[float]] = {argv: [] for argv in ways}
        for _ in range(RUNS.of(short=short)):
            for argv, code in ways.items():
                start = time.perf_counter()
                done = subprocess.run(argv, check=False, capture_output=True)
                taken[argv].append(time.perf_counter() - start)
                if done.returncode != code:
                    raise RuntimeError(done.stderr.decode())
        print(f"  {source.stat().st_size / 1e6:.1f} MB of JSON, {page.stat().st_size / 1e6:.1f} MB of HTML")
    yield measured("report", *taken.values())
