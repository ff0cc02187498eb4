"""`make bench`: measures what docs/speed.md states, each figure next to its target and its peer."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.tools.bench import saved
from tests.tools.bench.benches import BENCHES, ROWS, measure
from tests.tools.bench.compare import comparison
from tests.tools.bench.page import KEPT, PAGE, rendered
from tests.tools.bench.table import MISSED, table, verdict

LAST = Path("build/bench.json")
INTERRUPTED = 130


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

    def keep(measured: saved.Measurement) -> None:
        saved.save(LAST, measured)
        if given.publish:
            published = (kept or measured).updated(measured, [row.name for row in ROWS])
            saved.save(KEPT, published)
            PAGE.write_text(rendered(ROWS, published), "utf-8")

    new, failed, interrupted = measure(chosen, short=given.short, keep=keep)
    print(f"\n{table(rows, new.measured, judged=not given.short)}")
    if old is not None:
        print(f"Compared with {given.compare}:\n\n{comparison(rows, old, new)}")
    if new.rows:
        print(f"written: {LAST}{', docs/speed.md, docs/speed.json' if given.publish else ''}")
    missed = [row.name for row in rows if verdict(row, new.measured.get(row.name)) == MISSED]
    if not given.short:
        print(f"targets missed: {', '.join(missed) or 'none'}")
    if failed:
        stay = "; the rows above that they did not measure keep their earlier figures in docs/speed.md"
        print(f"failed: {', '.join(failed)}{stay if given.publish else ''}", file=sys.stderr)
    if interrupted:
        print("interrupted: only the rows above with a figure were measured", file=sys.stderr)
        return INTERRUPTED
    return int(bool(failed or (given.strict and missed)))


def _checked(given: argparse.Namespace) -> tuple[saved.Measurement | None, saved.Measurement | None]:
    """Return the older measurement and the published one, if asked for; ValueError if the options don't fit."""
    if unknown := [name for name in given.benches if name not in BENCHES]:
        raise ValueError(f"no bench {unknown[0]!r}; there are: {', '.join(BENCHES)}")
    if given.short and (given.publish or given.strict):
        raise ValueError("the figures of --short say nothing: no target judges them, and no page shows them")
    old = saved.load(given.compare) if given.compare else None
    if old is not None and old.short != given.short:
        raise ValueError(f"{given.compare} has the {'short' if old.short else 'full'} form, which doesn't compare")
    return old, _kept() if given.publish else None


def _kept() -> saved.Measurement | None:
    return saved.load(KEPT) if KEPT.exists() else None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make bench",
        description=__doc__,
        usage="make bench [ARGS='[--short] [--strict] [BENCH...]'] [COMPARE=FILE]",
        epilog="benches:\n" + "\n".join(f"  {name:14} {bench.title}" for name, bench in BENCHES.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("benches", nargs="*", metavar="BENCH", help="the benches to run  [default: all]")
    parser.add_argument("--short", action="store_true", help="small counts, to see that every bench still runs")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a target is missed")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="show what changed since this measurement")
    parser.add_argument("--publish", action="store_true", help="renew docs/speed.md and docs/speed.json")
    parser.add_argument("--render", action="store_true", help="write docs/speed.md from docs/speed.json and stop")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
