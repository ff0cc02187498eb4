"""Long prompts are kept as recipes."""

from hypothesis import given
from hypothesis import strategies as st

from turngate_probes.harness.cases import FILLER
from turngate_probes.record.requests import LONG, lengthened, shortened


@given(st.text(max_size=50), st.integers(0, 6000), st.text(max_size=50))
def test_a_recipe_gives_the_text_again(before: str, count: int, after: str) -> None:
    """Whatever is shortened can be had back whole."""
    text = before + (FILLER * 200)[:count] + after
    assert lengthened(shortened(text)) == text


def test_long_filled_text_becomes_short() -> None:
    """A prompt of 200 KB is a few words; a short one stays itself."""
    recipe = shortened("a " + FILLER * 5000 + " z")
    assert recipe == {"before": "a ", "repeated": FILLER, "characters": len(FILLER) * 5000, "after": " z"}
    assert shortened("hello") == "hello"


def test_long_text_of_another_kind_stays() -> None:
    """Text without the filler is kept as it is."""
    assert shortened("x" * (LONG + 1)) == "x" * (LONG + 1)
