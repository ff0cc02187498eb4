"""`make history ENGINE=codex`: tests the releases that the engine's history lacks, newest first.

Each result is saved, so an interrupt loses nothing, and the next call continues. `ARGS='--clause ID'` adds the results
of one clause, `ARGS='--versions A,B'` tests only these, `ARGS='--add DIR'` adds what `turngate matrix --results DIR`
saved.
"""

import sys
from argparse import ArgumentParser
from pathlib import Path

from tests.tools.history.fill import HISTORIES, add, fill, lines
from turngate import TurngateError, history
from turngate_probes.matrix.run import matrix_settings
from turngate_probes.releases.selection import known_clauses

DAYS = 180


def main() -> int:
    """Run the command; exit code 1 if something is left."""
    parser = ArgumentParser(prog="make history", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("engine")
    parser.add_argument("--days", type=int, default=DAYS, help=f"how far back to go  [default: {DAYS}]")
    parser.add_argument("--versions", default="", help="only these, separated by commas, whatever their age")
    parser.add_argument("--clause", action="append", default=[], help="only this clause and its prerequisites")
    parser.add_argument("--add", type=Path, metavar="DIR", help="add saved results, and test nothing")
    parser.add_argument("--cache-limit", default="10GB", help="disk space for installed releases  [default: 10GB]")
    parser.add_argument("--jobs", type=int, default=None, help="parallel engines")
    asked = parser.parse_args()
    try:
        if asked.add:
            sys.stdout.write(f"{add(asked.engine, asked.add)} results added\n")
            left = False
        else:
            clauses = known_clauses(asked.clause, "hermetic")
            settings = matrix_settings(
                "hermetic", clauses, results=None, cache_limit=asked.cache_limit, jobs=asked.jobs
            )
            named = tuple(word.strip() for word in asked.versions.split(",") if word.strip())
            left = fill(asked.engine, settings, days=asked.days, versions=named)
        for line in lines(history.read(HISTORIES / f"{asked.engine}.jsonl"), asked.days):
            sys.stdout.write(f"{line}\n")
    except TurngateError as failed:
        sys.stderr.write(f"{failed}\n")
        return 2
    return int(left)


if __name__ == "__main__":
    sys.exit(main())
