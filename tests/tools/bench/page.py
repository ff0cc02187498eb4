"""docs/speed.md, made of the rows and of the measurement in docs/speed.json."""

from collections.abc import Sequence
from pathlib import Path

from tests.tools.bench.rows import Row
from tests.tools.bench.saved import Measurement
from tests.tools.bench.table import MISSED, table, verdict

DOCS = Path(__file__).parents[3] / "docs"
PAGE, KEPT = DOCS / "speed.md", DOCS / "speed.json"
TEXT = """\
# Speed

To see how much time and memory turngate adds to your engines, compare each figure with that of the same work without
turngate, the *peer*. Both are measured in the same run, so their ratio depends less on the machine than each figure
does.

{table}
{conclusion}

## How it was measured

{measured}

Figures are medians. A stub model answers the engines at once, so no figure contains the time of a real model. The
figures of two turns of codex leave out what happens only once: codex sets up its home, turngate reads the version and
help of the release, and the server does a first run.

## Measure it yourself

In a checkout, run `make bench`, or `make bench ARGS='matrix probe'` for some benches; `make bench ARGS=--help` lists
them. To compare with an older measurement, keep a copy of `build/bench.json`, and run `make bench COMPARE=old.json`. A
change counts as noise if the middle halves of the old and the new samples overlap. `make speed` measures everything
and renews this page.
"""


def rendered(rows: Sequence[Row], measurement: Measurement | None) -> str:
    """Return the page."""
    measured = measurement.measured if measurement else {}
    verdicts = [verdict(row, measured.get(row.name)) for row in rows]
    met = verdicts.count("yes")
    conclusion = f"{met} of {met + verdicts.count(MISSED)} measured targets are met."
    return TEXT.format(table=table(rows, measured), conclusion=conclusion, measured=_measured(rows, measurement))


def _measured(rows: Sequence[Row], measurement: Measurement | None) -> str:
    if measurement is None or not measurement.rows:
        return "Nothing is measured yet."
    days = sorted({row.day for row in measurement.rows})
    when = days[0] if len(days) == 1 else f"from {days[0]} to {days[-1]}"
    busiest = max(row.busy for row in measurement.rows)
    reported = f"Measured {when} on {measurement.host.text}.\nBefore the first bench, {busiest:.1f} cores were busy."
    others: dict[str, list[str]] = {}
    what = {row.name: row.what for row in rows}
    for row in measurement.rows:
        if row.host is not None and row.measured.name in what:
            others.setdefault(row.host.text, []).append(what[row.measured.name])
    return reported + "".join(f"\n\nOn another machine, {host}: {'; '.join(those)}." for host, those in others.items())
