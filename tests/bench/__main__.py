"""`make bench`: measures what docs/speed.md states, each figure next to its target and its peer."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.bench import saved
from tests.bench.benches import BENCHES, ROWS, measure
from tests.bench.compare import comparison
from tests.bench.page import KEPT, PAGE, rendered
from tests.bench.table import MISSED, table, verdict

LAST = Path("build/bench.json")


def main(argv: Sequence[str]) -> int:
    """Run the benches named on the command line, or all; return the exit code."""
    parser = _parser()
    given = parser.parse_args(argv)
    try:
        if given.render:
            PAGE.write_text(rendered(ROWS, _kept()), "utf-8")
            return 0
        old, kept = _checked(given)
    except ValueError as error:
        parser.error(str(error))
    chosen = {name: BENCHES[name] for name in given.benches or BENCHES}
    rows = [row for bench in chosen.values() for row in bench.rows]
    new, failed = measure(chosen, short=given.short)
    print(f"\n{table(rows, new.measured, judged=not given.short)}")
    if old is not None:
        print(f"Compared with {given.compare}:\n\n{comparison(rows, old, new)}")
    saved.save(LAST, new)
    print(f"written: {LAST}")
    if given.publish:
        published = kept.updated(new) if kept else new
        saved.save(KEPT, published)
        PAGE.write_text(rendered(ROWS, published), "utf-8")
        print("written: docs/speed.md, docs/speed.json")
    missed = [row.name for row in rows if verdict(row, new.measured.get(row.name)) == MISSED]
    if not given.short:
        print(f"targets missed: {', '.join(missed) or 'none'}")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed or (given.strict and missed)))


def _checked(given: argparse.Namespace) -> tuple[saved.Measurement | None, saved.Measurement | None]:
    """Return the older measurement and the published one that stays in part; ValueError if the options don't fit."""
    if unknown := [name for name in given.benches if name not in BENCHES]:
        raise ValueError(f"no bench {unknown[0]!r}; there are: {', '.join(BENCHES)}")
    if given.short and (given.publish or given.strict):
        raise ValueError("the figures of --short say nothing: no target judges them, and no page shows them")
    kept = _kept() if given.publish and given.benches else None
    if kept is not None and kept.host != saved.host():
        raise ValueError(f"docs/speed.json is from another machine, so measure all benches: {kept.host.text}")
    old = saved.load(given.compare) if given.compare else None
    if old is not None and old.short != given.short:
        raise ValueError(f"{given.compare} has the {'short' if old.short else 'full'} form, which doesn't compare")
    return old, kept


def _kept() -> saved.Measurement | None:
    return saved.load(KEPT) if KEPT.exists() else None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make bench", description=__doc__,
        usage="make bench [ARGS='[--short] [--strict] [BENCH...]'] [COMPARE=FILE]",
        epilog="benches:\n" + "\n".join(f"  {name:14} {bench.title}" for name, bench in BENCHES.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("benches", nargs="*", metavar="BENCH", help="the benches to run  [default: all]")
    parser.add_argument("--short", action="store_true", help="small counts, to see that every bench still runs")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a target is missed")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="show what changed since this measurement")
    parser.add_argument("--publish", action="store_true", help="renew docs/speed.md and docs/speed.json")
    parser.add_argument("--render", action="store_true", help="write docs/speed.md from docs/speed.json and stop")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
