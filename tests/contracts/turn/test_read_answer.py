import pytest

from tests.contracts.releases import IDS, NEWEST
from tests.contracts.transcripts import lines
from turngate.model import Mode
from turngate.turn import read
from turngate.turn.read import FinalText, TurnReader

PARTS = 200_000


class Counted(str):
    """A text that counts the characters that are touched when it is joined to others."""

    __slots__ = ()
    touched = 0

    def __radd__(self, before: str) -> str:
        """Join it to a text, all of which is copied."""
        Counted.touched += len(before) + len(self)
        return str(before) + str(self)

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        """Return its own bytes."""
        Counted.touched += len(self)
        return super().encode(encoding, errors)


def part(text: str, message: str = "m") -> dict[str, object]:
    """Return a record of OpenCode that holds a part of a message."""
    return {"type": "text", "sessionID": IDS["opencode"], "part": {"messageID": message, "text": text}}


def test_many_small_parts_are_each_touched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Joining costs what the parts are long, not that times their number."""
    monkeypatch.setattr(Counted, "touched", 0)
    reader = TurnReader(NEWEST["opencode"], Mode.AUTO)
    for number in range(2000):
        reader._take_text(part(Counted("some words")), number)
    assert reader.finish(0).final_text == "some words" * 2000
    assert Counted.touched == 2000 * len("some words")


def test_a_transcript_of_many_small_parts_is_read_whole() -> None:
    """Two hundred thousand parts of one message are the answer, in the order in which they came."""
    reader = TurnReader(NEWEST["opencode"], Mode.AUTO)
    for first in range(0, PARTS, 1000):
        reader.feed("stdout", lines(*(part(f"{number:06}|") for number in range(first, first + 1000))).encode())
    said = reader.finish(0).final_text
    assert said == "".join(f"{number:06}|" for number in range(PARTS))


@pytest.mark.parametrize(
    "texts, kept",
    [
        ([("abcd", "m"), ("efgh", "m"), ("ijkl", "m")], "abcdefg"),
        ([("äöü", "m"), ("ß", "m")], "äöü"),
        ([("abcdefghij", "m")], "abcdefg"),
        ([("abcdefghij", None)], "abcdefghij"),
        ([("abcdefghij", "m"), ("k", "n")], "k"),
        ([("a", "m"), ("b", None), ("c", "m")], "c"),
        ([("", "m")], ""),
        ([], None),
    ],
)
def test_an_answer_is_bounded_in_bytes(
    texts: list[tuple[str, str | None]], kept: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts are kept up to the limit, which never leaves half a character; another group begins anew."""
    monkeypatch.setattr(read, "MAX_FINAL", 7)
    collected = FinalText()
    for text, group in texts:
        collected.take(text, group)
        assert collected.text is not None
    assert collected.text == kept
    assert len(collected._joined) <= 7
