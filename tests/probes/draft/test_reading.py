"""What the output of an unknown CLI shows."""

import json
from typing import Any

import pytest

from turngate_probes.draft.reading import Spot, candidates, end, final_text, leaves, read, shape

ID = "0199b2a1-7f3c-7000-8000-0123456789ab"
OTHER = "msg_1234567890ab"


def lines(*records: dict[str, Any], noise: str = "") -> bytes:
    """Return the records as lines of JSON, after a line of noise."""
    return noise.encode() + b"".join(json.dumps(record).encode() + b"\n" for record in records)


STREAM = lines(
    {"type": "start", "session": {"id": ID}, "at": "2026-01-01T00:00:00.000Z"},
    {"type": "item", "item": {"type": "thought", "text": "hm"}, "message_id": OTHER},
    {"type": "item", "item": {"type": "answer", "content": [{"text": "blue"}]}, "message_id": OTHER},
    {"type": "done", "count": 1},
    noise="Loading...\n",
)


def test_a_stream_of_events_is_read() -> None:
    """Lines of JSON are records with kinds; other lines are noise; the end and the text are told apart from others."""
    output = read(STREAM)
    assert (output.framing, output.noise, output.kind) == ("ndjson", ("Loading...",), "type")
    assert output.kinds == ("start", "item", "done")
    assert end(output) == Spot((("type", "done"),))
    answer = Spot((("type", "item"), ("item.type", "answer")), "item.content.0.text")
    assert final_text(output, "blue") == answer
    assert final_text(output, "green") is None


def test_the_likeliest_session_id_comes_first() -> None:
    """A value that is named as a session goes before others; times, prompts and kinds are none."""
    first, second = candidates(read(STREAM), ["a prompt"])
    assert (first.path, first.value, first.record, first.match) == ("session.id", ID, "first", ())
    assert (second.path, second.record, second.match) == (
        "message_id",
        "first",
        (("type", "item"), ("item.type", "thought")),
    )
    assert candidates(read(STREAM), [ID, OTHER]) == []


@pytest.mark.parametrize(
    "records, record",
    [
        ([{"type": "a", "thread": ID}, {"type": "b", "thread": ID}], "every"),
        ([{"type": "a"}, {"type": "b", "thread": ID}], "last"),
        ([{"type": "b", "thread": ID}], "only"),
    ],
)
def test_the_place_of_the_id_is_named(records: list[dict[str, Any]], record: str) -> None:
    """The place says which records have the id."""
    (candidate,) = candidates(read(lines(*records)), [])
    assert candidate.record == record


def test_a_document_and_text_are_read() -> None:
    """One JSON document over many lines is one record. Anything else is text, which has neither records nor kinds."""
    output = read(json.dumps({"session_id": ID, "result": "blue"}, indent=2).encode())
    assert (output.framing, output.kinds) == ("json_document", ("session_id", "result"))
    assert end(output) == Spot(())
    assert final_text(output, "blue") == Spot((), "result")
    text = read(b"blue\n")
    assert (text.framing, text.records, text.kinds, end(text)) == ("text", (), (), None)


def test_an_end_that_is_like_other_records_is_none() -> None:
    """The last record is no sign of the end if others are like it."""
    assert end(read(lines({"type": "a"}, {"type": "a"}))) is None


@pytest.mark.parametrize(
    "value, pattern, nonexistent",
    [
        ("0a1b2c3d4e5f", "[0-9a-f]{12}", "000000000000"),
        ("ses_0a1b2c3dZZ", "ses_[A-Za-z0-9]{10}", "ses_0000000000"),
        (ID, "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "00000000-0000-7000-8000-000000000000"),
    ],
)
def test_the_shape_of_an_id(value: str, pattern: str, nonexistent: str) -> None:
    """The pattern matches the id, and another id of the same shape that belongs to no session."""
    assert shape(value) == (pattern, nonexistent)


def test_leaves_have_paths_that_a_contract_can_name() -> None:
    """Keys and indexes are joined by dots; a key that has a dot itself can't be named."""
    record = {"a": [{"b": 1}, 2], "c.d": 3, "e": None}
    assert dict(leaves(record)) == {"a.0.b": 1, "a.1": 2, "e": None}
