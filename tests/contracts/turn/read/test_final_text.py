import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate.turn import framing, read


@pytest.mark.parametrize(
    "texts, kept",
    [
        ([("abcd", "m"), ("efgh", "m"), ("ijkl", "m")], "abcdefg"),
        ([("äöü", "m"), ("ß", "m")], "äöü"),
        ([("äöüß", "m"), ("a", "m")], "äöü"),
        ([("abcd", "m"), ("efghij", "m"), ("k", "n")], "k"),
        ([("a", "m"), ("b", None), ("c", "m")], "c"),
        ([("", "m")], ""),
        ([], None),
    ],
)
def test_an_answer_is_bounded_in_bytes(
    texts: list[tuple[str, str | None]], kept: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer is cut at the limit, never within a character; the next message starts anew."""
    monkeypatch.setattr(read, "MAX_FINAL", 7)
    collected = read.FinalText()
    for text, group in texts:
        collected.take(text, group)
        assert collected.text is not None
    assert collected.text == kept
    assert len(collected._joined or b"") <= 7


def test_a_single_text_is_bounded_by_its_record() -> None:
    """No framing returns a record that is longer than the limit of an answer, so a text alone is never cut."""
    assert max(framing.MAX_DOCUMENT, framing.MAX_TAIL, framing.MAX_LINE) <= read.MAX_FINAL


class Counted(str):
    """A text that counts the characters copied when it is joined to others."""

    __slots__ = ()
    touched = 0

    def __radd__(self, before: str) -> str:
        """Join it to a text, and count the characters copied."""
        Counted.touched += len(before) + len(self)
        return str(before) + str(self)

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        """Return its own bytes."""
        Counted.touched += len(self)
        return super().encode(encoding, errors)


def test_many_small_parts_are_each_touched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Joining parts takes linear time: what is joined is never copied, however often parts are joined."""
    monkeypatch.setattr(Counted, "touched", 0)
    collected, joined = read.FinalText(), set[int]()
    for number in range(2000):
        collected.take(Counted("some words"), "m")
        if number % 10 == 9:
            collected.join()
            joined.add(id(collected._joined))
    assert collected.text == "some words" * 2000
    assert Counted.touched <= 2000 * len("some words")
    assert len(joined) == 1


@given(st.lists(st.tuples(st.sampled_from(("a", "b", "é", 7, None)), st.sampled_from(("m", "n", 1, True, 1.5, None)))))
def test_an_observer_takes_texts_as_their_paths_say(said: list[tuple[object, object]]) -> None:
    """Texts of records with the same group in a row are joined; another group, or none, begins a new answer."""
    received: list[str] = []
    collected, expected, before = read.FinalText(), "", None
    observe = collected.observer("part.text", "part.group", received.append)
    alone, last = read.FinalText(), None
    observe_alone = alone.observer("part.text", None, None)
    for index, (text, group) in enumerate(said):
        record = {"part": {"text": text, "group": group}}
        observe(record, index)
        observe_alone(record, index)
        if isinstance(text, str):
            expected = expected + text if group == before and isinstance(group, str | int) else text
            before, last = group if isinstance(group, str | int) else None, text
    assert received == [text for text, _ in said if isinstance(text, str)]
    assert collected.text == (expected if received else None)
    assert alone.text == last
