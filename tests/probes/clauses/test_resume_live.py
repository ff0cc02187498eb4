"""The check of what a real model gives back."""

import pytest

from tests.probes import turns as t
from turngate.contract.verdict import Finding


def recalled(answer: str | None) -> Finding:
    """Check an answer of the resumed turn."""
    first = t.turn("main/first", requests=None)
    return t.found("live.context-recalled", first, t.resumed("main/again", stdout=t.printed(text=answer)))


@pytest.mark.parametrize("answer", ["{word}", "The word is **{word}**.", "{word}\n"])
def test_a_word_that_is_given_back_passes(answer: str) -> None:
    """Whatever is said around it."""
    assert recalled(answer.format(word=t.nonce("main/first"))).ok
    assert recalled(answer.format(word=t.nonce("main/first").upper())).ok


@pytest.mark.parametrize("answer", ["I do not know.", "", None, "tgn-main-firstling"])
def test_any_other_answer_fails(answer: str | None) -> None:
    """And is shown."""
    found = recalled(answer)
    assert not found.ok
    assert not answer or answer in found.detail
