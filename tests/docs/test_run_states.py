"""The drawing of the states of a run in docs/how-it-works.md."""

import pytest

from tests.tools.docs.run_states import FILE, with_states
from turngate_reference.states import TRANSITIONS


def test_the_page_shows_the_table_of_the_code() -> None:
    """The drawing is up to date, and has a line for each state and cause."""
    page = FILE.read_text("utf-8")
    assert with_states(page) == page
    drawing = page.partition("<!-- run states -->")[2].partition("<!-- /run states -->")[0]
    assert drawing.count("▶") == sum(map(len, TRANSITIONS.values()))


def test_a_page_without_a_place_for_the_drawing_is_an_error() -> None:
    """The drawing never disappears unnoticed."""
    with pytest.raises(ValueError, match="needs one place"):
        with_states("# How turngate works\n")
