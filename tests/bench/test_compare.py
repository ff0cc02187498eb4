"""A comparison shows what changed since an older measurement, and what is noise."""

import msgspec
import pytest

from tests.tools.bench import saved
from tests.tools.bench.compare import comparison
from tests.tools.bench.rows import Measure, Measured, Row, Target, measured

RATIO = Row("a", "A turn", "ms", "bare", Target(2, Measure.RATIO))
SPEED = Row("a", "Reading", "MB/s", "json", Target(2, Measure.RATIO, least=True))
HOST = saved.host()


def of(*rows: Measured, unit: str = "ms", host: saved.Host = HOST) -> saved.Measurement:
    """Return a measurement with these rows."""
    return saved.Measurement(host, short=False, rows=tuple(saved.today(row, unit, 0.0) for row in rows))


def change(row: Row, old: saved.Measurement, new: Measured) -> list[str]:
    """Return old, new and change of the only row."""
    line = comparison([row], old, of(new, unit=row.unit)).splitlines()[-1]
    return [cell.strip() for cell in line.strip("|").split("|")][2:]


@pytest.mark.parametrize(
    "row, figures, said",
    [
        (RATIO, [30, 30, 31], ["2.00 x", "3.00 x", "+50%, worse"]),
        (RATIO, [10, 10, 11], ["2.00 x", "1.00 x", "-50%, better"]),
        (SPEED, [30, 30, 31], ["2.00 x", "3.00 x", "+50%, better"]),
        (SPEED, [10, 10, 11], ["2.00 x", "1.00 x", "-50%, worse"]),
        (RATIO, [18, 21, 26], ["2.00 x", "2.10 x", "+5%, within noise"]),
        (RATIO, [20, 20, 20], ["2.00 x", "2.00 x", "none"]),
    ],
)
def test_a_change_is_better_worse_or_noise(row: Row, figures: list[float], said: list[str]) -> None:
    """What the target is about decides; samples whose middle halves overlap are noise."""
    old = of(measured("a", [19, 20, 22], [10, 10, 10]), unit=row.unit)
    assert change(row, old, measured("a", figures, [10, 10, 10])) == said


@pytest.mark.parametrize("figure, said", [(104, "+4%, within noise"), (120, "+20%, worse")])
def test_a_single_sample_is_uncertain(figure: float, said: str) -> None:
    """One sample says nothing about noise, so a small change counts as noise."""
    row = Row("a", "A matrix", "s", target=Target(90))
    assert change(row, of(measured("a", [100]), unit="s"), measured("a", [figure]))[-1] == said


def test_a_row_without_a_counterpart_is_new() -> None:
    """So is a row whose unit or peer differs, because its values don't compare."""
    new = measured("a", [20], [10])
    for old in (of(), of(measured("a", [20], [10]), unit="s"), of(measured("a", [20]))):
        assert change(RATIO, old, new) == ["none", "2.00 x", "new"]


def test_figures_of_another_machine_are_named() -> None:
    """The reader learns that the old figures are from another machine, and from which one."""
    other = msgspec.structs.replace(HOST, cpu="Fast 9000")
    row = measured("a", [20], [10])
    assert "from another machine: " in comparison([RATIO], of(row, host=other), of(row))
    assert "Fast 9000" in comparison([RATIO], of(row, host=other), of(row))
    assert "another machine" not in comparison([RATIO], of(row), of(row))
