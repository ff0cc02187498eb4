"""What changed since an older measurement."""

from collections.abc import Iterable

from tests.tools.bench.rows import Measure, Measured, Row
from tests.tools.bench.saved import Measurement
from tests.tools.bench.table import aligned, value_text

HEAD = ("what", "compared", "old", "new", "change")
COMPARED = {Measure.FIGURE: "figure", Measure.RATIO: "ratio to the peer", Measure.ADDED: "added to the peer"}


def comparison(rows: Iterable[Row], old: Measurement, new: Measurement) -> str:
    """Return the old and the new value of each newly measured row, and the change."""
    before, units = old.measured, {row.measured.name: row.unit for row in old.rows}
    lines: list[tuple[str, ...]] = [HEAD]
    for row in rows:
        if (after := new.measured.get(row.name)) is None:
            continue
        same = units.get(row.name, row.unit) == row.unit
        lines.append(_line(row, before.get(row.name) if same else None, after))
    others = sorted({old.host_of(row) for row in old.rows if row.measured.name in new.measured} - {new.host.text})
    return "".join(f"Old figures are from another machine: {other}.\n\n" for other in others) + aligned(lines)


def _line(row: Row, old: Measured | None, new: Measured) -> tuple[str, ...]:
    of = row.of if new.peer else Measure.FIGURE
    after = new.value(of)
    now = value_text(row, of, after)
    if old is None or bool(old.peer) != bool(new.peer):
        return (row.what, COMPARED[of], "none", now, "new")
    before = old.value(of)
    return (row.what, COMPARED[of], value_text(row, of, before), now, _change(row, old, new, of))


def _change(row: Row, old: Measured, new: Measured, of: Measure) -> str:
    before, after = old.value(of), new.value(of)
    if before == after:
        return "none"
    (low, high), (now_low, now_high) = old.spread(of), new.spread(of)
    change = f"{(after - before) / abs(before):+.0%}" if before else f"{after - before:+.2f}"
    if low <= now_high and now_low <= high:
        return f"{change}, within noise"
    higher = bool(row.target and row.target.least)
    return f"{change}, {'better' if (after > before) is higher else 'worse'}"
