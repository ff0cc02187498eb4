"""Measures released orchestrators and renders docs/orchestrators.md: `python -m tests.conform [NAME]...`."""

import sys
import tempfile
from pathlib import Path

import msgspec

from tests.conform.page import rendered
from tests.conform.real import ORCHESTRATORS
from turngate_probes.conform.catalogue import scenarios
from turngate_probes.conform.report import ConformReport

ROOT = Path(__file__).parents[2]
SAVED = ROOT / "build" / "orchestrators"
JOBS = 3


def main() -> None:
    """Run the named orchestrators (none: all), and render the page from every saved report."""
    SAVED.mkdir(parents=True, exist_ok=True)
    for one in ORCHESTRATORS:
        if not sys.argv[1:] or one.name in sys.argv[1:]:
            with tempfile.TemporaryDirectory() as folder:
                report = one.conform(Path(folder), tuple(scenarios()), JOBS)
            (SAVED / f"{one.name}.json").write_bytes(msgspec.json.encode(report))
    measured = {
        one: msgspec.json.decode(file.read_bytes(), type=ConformReport)
        for one in ORCHESTRATORS
        if (file := SAVED / f"{one.name}.json").exists()
    }
    (ROOT / "docs" / "orchestrators.md").write_text(rendered(measured), "utf-8")


if __name__ == "__main__":
    main()
