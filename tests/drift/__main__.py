"""Prints how many drifts were caught, and those that were missed: `python -m tests.drift`."""

import sys
from concurrent.futures import ThreadPoolExecutor

from tests.drift.drifts import corpus
from tests.drift.judging import judge_drift
from tests.drift.staged import PLAYED_AT_ONCE, without_waiting


def main() -> int:
    """Judge the corpus; return 1 if a drift was missed."""
    with without_waiting(*corpus()), ThreadPoolExecutor(PLAYED_AT_ONCE) as pool:
        judged = list(pool.map(judge_drift, corpus()))
    missed = [drift for drift in judged if not drift.caught]
    for drift in missed:
        sys.stdout.write(f"missed {drift}\n")
    sys.stdout.write(f"caught {len(judged) - len(missed)} / {len(judged)}\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
