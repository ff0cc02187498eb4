"""Measures released orchestrators, and renders docs/orchestrators.md and docs/orchestrators.json."""

import argparse
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

import click

from tests.conform.measured import load, measured, merged, save
from tests.conform.page import KEPT, PAGE, rendered
from tests.conform.real import ORCHESTRATORS
from turngate_probes.conform.catalogue import scenarios

JOBS = 3


def main(argv: Sequence[str]) -> int:
    """Run the named orchestrators (none: all), each of which replaces its row of the page; return the exit code."""
    by_name = {one.name: one for one in ORCHESTRATORS}
    parser = argparse.ArgumentParser(prog="make orchestrators", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(by_name)}  [default: all]")
    parser.add_argument("--render", action="store_true", help="measure nothing, and render the page")
    given = parser.parse_args(argv)
    if unknown := [name for name in given.names if name not in by_name]:
        parser.error(f"no orchestrator {unknown[0]!r}; there are: {', '.join(by_name)}")
    failed = []
    for name in [] if given.render else given.names or by_name:
        click.echo(name)
        try:
            with tempfile.TemporaryDirectory() as folder:
                report = by_name[name].conform(Path(folder), tuple(scenarios()), JOBS)
        except Exception:  # noqa: BLE001 - the others are measured all the same
            traceback.print_exc()
            failed.append(name)
            continue
        save(KEPT, merged(load(KEPT), measured(by_name[name], report), tuple(by_name)))
        PAGE.write_text(rendered(load(KEPT)), "utf-8")
    PAGE.write_text(rendered(load(KEPT)), "utf-8")
    if failed:
        click.echo(f"failed: {', '.join(failed)}; their rows of the page stay as they were", err=True)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
