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

This page says what turngate costs, next to what the same work costs without it. A row's peer is measured in the same
run, so the ratio depends less on the machine than the figure does.

{table}
{conclusion}

## How it was measured

{measured}

Figures are medians. Peers are the engine's bare CLI, the vendor's SDK from its registry, or plain `json`. Engines talk
to a stub model that answers at once, so no figure contains the time of a real model. Before the two turns of codex are
measured, codex has set up its home, turngate has read the version and help of the release, and the server has done a
run. Each of these happens only once.

## Measure it yourself

In a checkout:

| command | what it does |
|---|---|
| `make bench` | measures everything, and prints this table |
| `make bench ARGS='matrix probe'` | measures some benches; `make bench ARGS=--help` lists them |
| `make bench ARGS=--strict` | exits with 1 if a target is missed |
| `make bench ARGS=--short` | checks that each bench runs; its figures say nothing |
| `make bench COMPARE=old.json` | shows also what changed since an older measurement |
| `make speed` | measures everything, and renews this page; `make speed ARGS='matrix probe'` renews some rows |

Each run of `make bench` writes `build/bench.json`. Copy the file, and give the copy to `COMPARE` later. A change counts
as noise if the middle halves of the old and the new samples overlap. A single sample counts as uncertain by 5 %.

A missed target changes the exit code only with `--strict`, because any busy machine can miss it. If a bench fails, the
others still run, and the exit code is 1. A usage error gives 2, and Ctrl-C 130. Each row is written as soon as it is
measured, and this page keeps the earlier figures of rows that a run didn't measure.
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
