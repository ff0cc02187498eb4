"""The table of benches, as Markdown that a terminal can show, too."""

import math
from collections.abc import Iterable, Mapping, Sequence

from tests.tools.bench.rows import Measure, Measured, Row, Target

HEAD = ("what", "figure", "target", "peer", "ratio", "met")
MISSED = "**no**"


def table(rows: Iterable[Row], measured: Mapping[str, Measured], *, judged: bool = True) -> str:
    """Return every row, including those that are not measured; without the last column unless `judged`."""
    lines = [HEAD, *(_line(row, measured.get(row.name)) for row in rows)]
    return aligned(lines if judged else [line[:-1] for line in lines])


def verdict(row: Row, measured: Measured | None) -> str:
    """Return whether a row meets its target; empty without a target."""
    if measured is None:
        return "not measured"
    if row.target is None:
        return ""
    return "yes" if row.target.met(measured.value(row.target.of)) else MISSED


def amount(value: float, unit: str) -> str:
    """Return a value with three significant digits and its unit."""
    digits = 2 if value == 0 else max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:,.0f}" if value == int(value) else f"{value:,.{digits}f}"
    return f"{text} {unit}".strip()


def value_text(row: Row, of: Measure, value: float) -> str:
    """Return a value of a row as a reader sees it."""
    return f"{value:.2f} x" if of is Measure.RATIO else amount(value, row.unit)


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; the first line is its head."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rule = ["-" * width for width in widths]
    padded = [
        [cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in [*lines[:1], rule, *lines[1:]]
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in padded)


def _line(row: Row, measured: Measured | None) -> tuple[str, ...]:
    target = _target(row, row.target) if row.target else "none"
    if measured is None:
        return (row.what, "", target, row.peer, "", verdict(row, None))
    figure = amount(measured.value(Measure.FIGURE), row.unit)
    if row.of is Measure.ADDED:
        figure += f" ({amount(measured.value(Measure.ADDED), row.unit)} added)"
    peer = f"{amount(measured.peer.median, row.unit)}, {row.peer}" if measured.peer else row.peer
    ratio = f"{measured.value(Measure.RATIO):.2f}" if measured.peer else ""
    return (row.what, figure, target, peer, ratio, verdict(row, measured))


def _target(row: Row, target: Target) -> str:
    bound = "at least" if target.least else "at most"
    match target.of:
        case Measure.RATIO:
            return f"{bound} {target.limit:.2f} x the peer"
        case Measure.ADDED:
            return f"{bound} {amount(target.limit, row.unit)} added"
        case Measure.FIGURE:
            return f"{bound} {amount(target.limit, row.unit)}"
