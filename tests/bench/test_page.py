"""docs/speed.md shows the rows that the benches define, with the figures of docs/speed.json."""

from tests.tools.bench import page, saved
from tests.tools.bench.benches import ROWS


def test_the_page_shows_the_rows_of_the_benches() -> None:
    """After a change of a row or a figure, `make speed ARGS=--render` updates the page."""
    kept = saved.load(page.KEPT) if page.KEPT.exists() else None
    assert page.PAGE.read_text("utf-8") == page.rendered(ROWS, kept)


def test_row_names_are_unique() -> None:
    """Each row has a name of its own, by which measurements are compared."""
    assert len({row.name for row in ROWS}) == len(ROWS)
