"""`make bench`: measures what the docs state, with comparisons."""

import argparse
import sys
from collections.abc import Sequence

from tests.bench import (
    conform_figures,
    help_time,
    matrix_figures,
    probe_figures,
    resume_overhead,
    server_figures,
    slow_clients,
    sticky_figures,
    sticky_resume_figures,
    throughput,
)
from tests.bench.form import SHORT_LABEL

BENCHES = {
    "help": ("turngate --help, against starting Python and importing click", help_time.bench),
    "resume": ("turngate resume, over its engine's own time", resume_overhead.bench),
    "conform": ("a scenario of turngate conform, over the orchestrator's own time", conform_figures.bench),
    "server": ("the reference server, against its engine called directly", server_figures.bench),
    "slow-clients": ("/healthz with 2,000 slow clients, against none", slow_clients.bench),
    "sticky-resume": ("a process kept between turns, against a resume for each", sticky_resume_figures.bench),
    "sticky": ("runs that wait with a process each, and end at their deadlines", sticky_figures.bench),
    "throughput": ("reading a long turn, against parsing alone", throughput.bench),
    "matrix": ("cached releases of codex, against their own CPU time", matrix_figures.bench),
    "probe": ("a probe of the pinned releases, against their own CPU time", probe_figures.bench),
}


def main(argv: Sequence[str]) -> int:
    """Run the benches named on the command line, or all; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="make bench", description=__doc__, usage="make bench ARGS='[--short] [BENCH...]'"
    )
    parser.add_argument("benches", nargs="*", metavar="BENCH", help=f"one of: {', '.join(BENCHES)}  [default: all]")
    parser.add_argument("--short", action="store_true", help="small counts, to see that every bench still runs")
    given = parser.parse_args(argv)
    if unknown := [name for name in given.benches if name not in BENCHES]:
        parser.error(f"no bench {unknown[0]!r}; there are: {', '.join(BENCHES)}")
    for name in given.benches or BENCHES:
        title, bench = BENCHES[name]
        print(f"{name}: {title}" + (f" ({SHORT_LABEL})" if given.short else ""), flush=True)
        bench(short=given.short)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
