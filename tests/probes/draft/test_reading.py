"""What the output of an unknown CLI shows."""

import json
from typing import Any

import pytest

from turngate_probes.draft.reading import (
    Place,
    end,
    id_places,
    id_values,
    kind_fields,
    kinds,
    leaves,
    read,
    text_places,
)

ID = "0199b2a1-7f3c-7000-8000-0123456789ab"
OTHER = "msg_1234567890ab"


def lines(*records: dict[str, Any], noise: str = "") -> bytes:
    """Return the records as lines of JSON, after a line of noise."""
    return noise.encode() + b"".join(json.dumps(record).encode() + b"\n" for record in records)


STREAM = lines(
    {"type": "start", "at": "2026-01-01T00:00:00.000Z"},
    {"type": "item", "item": {"type": "thought", "text": "hm"}, "message_id": OTHER, "session": {"id": ID}},
    {"type": "item", "item": {"type": "answer", "content": [{"text": "blue"}]}, "session": {"id": ID}},
    {"type": "done", "count": 1},
    noise="Loading...\n",
)


def test_a_stream_of_events_is_read() -> None:
    """Lines of JSON are records with kinds; other lines are noise; the end and the text are told apart from others."""
    output = read(STREAM)
    assert (output.framing, output.noise, kind_fields([output])) == ("ndjson", ("Loading...",), ["type"])
    assert kinds([output], "type") == ["start", "item", "done"]
    assert end([output, output], "type") == Place("", (("type", "done"),))
    answer = Place("item.content.0.text", (("type", "item"), ("item.type", "answer")))
    assert text_places([output, output], "blue", "type") == [answer]
    assert text_places([output], "green", "type") == []


def test_ids_are_listed_by_how_often_they_are_printed() -> None:
    """Values that look like ids are listed, the one in most records first; times, numbers and words are none."""
    assert id_values(read(STREAM)) == [ID, OTHER]
    assert id_values(read(lines({"a": "1.2.3", "b": "assistant", "c": "123456789", "d": "local-conv-1"}))) == [
        "local-conv-1"
    ]


def test_a_place_is_listed_only_if_every_turn_has_the_id_there() -> None:
    """An id in the middle is told apart by the kind of its record; a turn with the id elsewhere takes a place away."""
    output = read(STREAM)
    (place,) = id_places([(output, ID)], "type")
    assert place == Place("session.id", (("type", "item"), ("item.type", "thought")), "first")
    assert id_places([(output, ID), (read(lines({"type": "start", "id": ID})), ID)], "type") == []


@pytest.mark.parametrize(
    "records, record",
    [
        ([{"type": "a", "thread": ID}, {"type": "b", "thread": ID}], "every"),
        ([{"type": "a", "thread": ID}, {"type": "b"}], "first"),
        ([{"type": "a"}, {"type": "b", "thread": ID}], "last"),
        ([{"type": "b", "thread": ID}], "only"),
    ],
)
def test_the_place_of_the_id_is_named(records: list[dict[str, Any]], record: str) -> None:
    """The place says which records have the id."""
    assert id_places([(read(lines(*records)), ID)], "type") == [Place("thread", record=record)]


def test_a_document_and_text_are_read() -> None:
    """One JSON document over many lines is one record. Anything else is text, which has no records."""
    output = read(json.dumps({"session_id": ID, "result": "blue"}, indent=2).encode())
    assert (output.framing, kinds([output], None)) == ("json_document", ["session_id", "result"])
    assert end([output], None) == Place("")
    assert text_places([output], "blue", None) == [Place("result")]
    text = read(b"blue\n")
    assert (text.framing, text.records, kind_fields([text])) == ("text", (), [])


def test_what_is_ambiguous_is_named_as_such() -> None:
    """Two keys that may hold the kind are both named; a last record like others is no end; ends must agree."""
    assert kind_fields([read(lines({"type": "a", "role": "b"}))]) == ["type", "role"]
    assert end([read(lines({"type": "a"}, {"type": "a"}))], "type") is None
    assert end([read(lines({"type": "a"})), read(lines({"type": "b"}))], "type") is None


def test_leaves_have_paths_that_a_contract_can_name() -> None:
    """Keys and indexes of texts are joined by dots; an empty key, or one with a dot, can't be named."""
    record = {"a": [{"b": "1"}, "2"], "c.d": "3", "": "4", "e": None}
    assert dict(leaves(record)) == {"a.0.b": "1", "a.1": "2"}
