"""The list of faults, and the words that name them."""

import re

import pytest

from tests.tables import each
from turngate_probes.simulate.faults import NONE, Faults, Play, descriptions, for_turn, listed, parsed


def test_words_name_faults() -> None:
    """A word has the value that its fault wants."""
    words = ("dies-after-turn", "hang=before", "delay=1.5", "chunk=7", "banner=a=b")
    assert parsed(words) == Faults(dies_after_turn=True, hang="before", delay=1.5, chunk=7, banner="a=b")
    assert parsed(()) == NONE


@each(
    "word, reported",
    [
        ("nope", "'nope' is not a fault"),
        ("dies_in_turn", "'dies_in_turn' is not a fault"),
        ("together", "'together' is not a fault"),
        ("bom=1", "'bom' takes no value"),
        ("bom=", "'bom' takes no value"),
        ("delay", "it is delay=SECONDS"),
        ("hang=", "it is hang=before|during|after"),
        ("hang=never", "`$.hang`"),
        ("chunk=-1", "`$.chunk`"),
        ("delay=nan", "`$.delay`"),
    ],
)
def test_other_words_are_refused(word: str, reported: str) -> None:
    """The message says what is wrong, or what is known."""
    with pytest.raises(ValueError, match=re.escape(reported)):
        parsed(("bom", word))


def test_each_fault_is_described() -> None:
    """Each fault that a command can play has a line: how it is written, and what the engine does."""
    lines = [*descriptions()]
    assert max(map(len, lines)) <= 100
    told = " ".join(" ".join(lines).split())
    for fault in listed():
        word = f"{fault.name}={fault.value}" if fault.value else fault.name
        assert (f"{word} {' '.join(fault.does.replace('`', '').split())}" in told) == (fault.by != "scenario")


def test_plays_of_a_turn_add_up() -> None:
    """Those of other turns don't count."""
    plays = [Play(delay=1), Play(turn=2, bom=True), Play(turn=3, crlf=True)]
    assert for_turn(plays, 2) == Faults(delay=1, bom=True)
