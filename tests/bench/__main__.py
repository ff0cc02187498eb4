"""`make bench`: measures what the README states, each figure beside what it is compared to."""

import sys

from tests.bench import (
    help_time,
    matrix_figures,
    probe_figures,
    resident_figures,
    resume_overhead,
    server_figures,
    sticky_figures,
    throughput,
)

BENCHES = {
    "help": ("turngate --help, against starting Python and importing click", help_time.bench),
    "resume": ("turngate resume, over its engine's own time", resume_overhead.bench),
    "server": ("the reference server, against its engine called directly", server_figures.bench),
    "resident": ("a process kept between turns, against a resume for each", resident_figures.bench),
    "sticky": ("100 runs that wait with a process each, and end at their deadlines", sticky_figures.bench),
    "throughput": ("reading a turn of 200 MB, against parsing alone", throughput.bench),
    "matrix": ("20 cached releases of codex, against their own CPU time", matrix_figures.bench),
    "probe": ("a probe of the pinned releases, against their own CPU time", probe_figures.bench),
}


def main() -> int:
    """Run the benches named on the command line, or all."""
    asked = sys.argv[1:] or list(BENCHES)
    unknown = [name for name in asked if name not in BENCHES]
    if unknown:
        print(f"no bench {unknown[0]!r}; there are: {', '.join(BENCHES)}", file=sys.stderr)
        return 2
    for name in asked:
        title, bench = BENCHES[name]
        print(f"{name}: {title}", flush=True)
        bench()
    return 0


if __name__ == "__main__":
    sys.exit(main())
