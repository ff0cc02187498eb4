import pytest

from turngate.turn import final_text


@pytest.mark.parametrize(
    "texts, kept",
    [
        ([("abcd", "m"), ("efgh", "m"), ("ijkl", "m")], "abcdefg"),
        ([("äöü", "m"), ("ß", "m")], "äöü"),
        ([("äöüß", "m"), ("a", "m")], "äöü"),
        ([("abcdefghij", "m")], "abcdefg"),
        ([("abcdefghij", None)], "abcdefg"),
        ([("abcdefghij", "m"), ("k", "n")], "k"),
        ([("a", "m"), ("b", None), ("c", "m")], "c"),
        ([("", "m")], ""),
        ([], None),
    ],
)
def test_an_answer_is_bounded_in_bytes(
    texts: list[tuple[str, str | None]], kept: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer is cut at the limit, never within a character; the next message starts anew."""
    monkeypatch.setattr(final_text, "MAX_FINAL", 7)
    collected = final_text.FinalText()
    for text, group in texts:
        collected.take(text, group)
        assert collected.text is not None
    assert collected.text == kept
    assert len(collected._joined or b"") <= 7
