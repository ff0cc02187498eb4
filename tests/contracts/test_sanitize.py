import shlex

from hypothesis import given
from hypothesis import strategies as st

from turngate.sanitize import bounded, command_line, visible, visible_lines


@given(st.text())
def test_what_is_made_visible_is_printable(text: str) -> None:
    """No control, no direction mark and no odd blank survives."""
    assert visible(text).isprintable()


def test_escapes_are_shown_as_they_are_written_in_source() -> None:
    """One can read what was there."""
    assert visible("a\x1b[31mb\0\u202e\n\u00e9") == "a\\x1b[31mb\\x00\\u202e\\n\u00e9"


def test_lines_are_kept_and_blanks_at_their_ends_dropped() -> None:
    """An excerpt is shown line by line, tabs as blanks."""
    assert visible_lines("\na\tb  \r\nc\n\n") == ["a   b  \\r", "c"]


@given(st.text(), st.integers(0, 50))
def test_bounded_text_keeps_its_ends_and_counts_the_rest(text: str, limit: int) -> None:
    """What is within bounds is untouched, what is not keeps `limit` characters and says how many are gone."""
    short = bounded(text, limit)
    if len(text) <= limit:
        assert short == text
        return
    mark = f"[… {len(text) - limit} characters left out …]"
    head, found, tail = short.partition(mark)
    assert found
    assert len(head) + len(tail) == limit
    assert text.startswith(head)
    assert text.endswith(tail)


@given(st.lists(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20)))
def test_a_command_line_can_be_pasted(argv: list[str]) -> None:
    """Of plain words a shell makes the same argv again."""
    assert shlex.split(command_line(argv, 100)) == argv


def test_words_of_a_command_line_are_bounded_and_on_one_line() -> None:
    """A prompt of many lines does not flood the report."""
    line = command_line(["codex", "a\nb" * 1000], 30)
    assert "\n" not in line
    assert "characters left out" in line
    assert len(line) < 120


def test_a_line_keeps_its_own_blanks_and_letters_where_it_begins() -> None:
    """Indents stay, and of a text only the newlines at its ends are dropped."""
    assert visible_lines("\n  X \n Y\nX\n") == ["  X", " Y", "X"]


def test_three_quarters_of_bounded_text_are_its_start() -> None:
    """What comes first says most: a quarter of what is kept is the end."""
    assert bounded("a" * 60 + "b" * 40, 40) == "a" * 30 + "[… 60 characters left out …]" + "b" * 10
