"""The table shows each figure next to its target and its peer, and whether it meets the target."""

import pytest

from tests.tools.bench.rows import Measure, Row, Target, measured
from tests.tools.bench.table import amount, table, verdict


def cells(row: Row, *samples: list[float]) -> list[str]:
    """Return the cells of a row's line."""
    line = table([row], {row.name: measured(row.name, *samples)}).splitlines()[2]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_figure_is_the_median_next_to_target_peer_and_ratio() -> None:
    """A row has all of them, with units."""
    row = Row("a", "A turn", "ms", "bare", Target(100))
    assert cells(row, [90, 80, 300], [40, 45, 50]) == [
        "A turn",
        "90 ms",
        "at most 100 ms",
        "45 ms, bare",
        "2.00",
        "yes",
    ]


def test_what_is_added_to_the_peer_is_shown() -> None:
    """A target of the difference is judged by the difference, which stands next to the figure."""
    row = Row("a", "A turn", "ms", "bare", Target(90, Measure.ADDED))
    assert cells(row, [180], [60.5])[1:] == [
        "180 ms (120 ms added)",
        "at most 90 ms added",
        "60.5 ms, bare",
        "2.98",
        "**no**",
    ]


@pytest.mark.parametrize(
    "target, met",
    [
        (Target(2, Measure.RATIO), "yes"),
        (Target(1.9, Measure.RATIO), "**no**"),
        (Target(2, Measure.RATIO, least=True), "yes"),
        (Target(2.1, Measure.RATIO, least=True), "**no**"),
        (Target(20), "yes"),
        (Target(19.9), "**no**"),
        (Target(10, Measure.ADDED), "yes"),
        (None, ""),
    ],
)
def test_a_target_is_met_up_to_its_limit(target: Target | None, met: str) -> None:
    """A limit itself meets the target; a row without a target is not judged."""
    assert verdict(Row("a", "A", "s", "bare", target), measured("a", [20], [10])) == met


def test_a_row_that_is_not_measured_says_so() -> None:
    """It keeps its target and its peer, and shows no figure."""
    line = table([Row("a", "A turn", "ms", "bare", Target(2, Measure.RATIO))], {}).splitlines()[2]
    assert [cell.strip() for cell in line.strip("|").split("|")] == [
        "A turn",
        "",
        "at most 2.00 x the peer",
        "bare",
        "",
        "not measured",
    ]


@pytest.mark.parametrize(
    "value, text",
    [
        (0, "0 s"),
        (0.01234, "0.0123 s"),
        (1.5, "1.50 s"),
        (12.345, "12.3 s"),
        (1234.5, "1,234 s"),
        (-0.5, "-0.500 s"),
    ],
)
def test_an_amount_has_three_significant_digits(value: float, text: str) -> None:
    """No digits suggest more precision than a bench has."""
    assert amount(value, "s") == text
