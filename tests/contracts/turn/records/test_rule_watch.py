import json
from typing import Any

import pytest

from turngate.contract import load
from turngate.contract.engine_contract import EngineContract
from turngate.turn.read import read_turn
from turngate.turn.records import RuleWatch, Wanted

STARTED: dict[str, Any] = {"type": "started", "sessions": [{"id": "s00000001"}]}
SAID: dict[str, Any] = {"type": "message", "role": "agent", "content": [{"text": "hello"}]}
DONE: dict[str, Any] = {"type": "done"}
NAMES = ("started", "message", "done")


def contract(**sections: dict[str, Any]) -> EngineContract:
    """Return the contract of an engine that prints its id and its text in lists, with sections changed."""
    usual: dict[str, dict[str, Any]] = {
        "handle": {
            "stream": "stdout",
            "record": "first",
            "match": {"type": "started"},
            "field": "sessions.0.id",
            "shape": "s[0-9]{8}",
            "nonexistent_id": "s00000000",
        },
        "end": {"stream": "stdout", "match": {"type": "done"}},
        "final": {"stream": "stdout", "match": {"type": "message"}, "field": "content.0.text"},
        "events": {"stream": "stdout", "field": "type", "names": [*NAMES]},
    }
    document = load.contract("codex").document
    data = {key: document.data[key] for key in document.data}
    for name, section in usual.items():
        data[name] = {**section, **sections.get(name, {}), "unverified": True}
    data["handle"]["handle_type"] = "session_id"
    data.pop("failures", None)
    return load.Contract(load.parse(json.dumps(data), "lists.yaml")).at("0.169.0")


def read(changed: EngineContract, *records: dict[str, Any]) -> dict[str, str]:
    """Return the unmatched paths of a turn that printed these records."""
    stdout = "".join(f"{json.dumps(record)}\n" for record in records).encode()
    return read_turn(changed, "interactive", stdout, b"", 0).unmatched


def test_ids_and_texts_in_lists_are_read() -> None:
    """A turn whose id and text are in lists is complete, and names no path."""
    stdout = "".join(f"{json.dumps(record)}\n" for record in (STARTED, SAID, DONE)).encode()
    reading = read_turn(contract(), "auto", stdout, b"", 0)
    assert reading.session
    assert (reading.session.handle_value, reading.final_text, reading.ended) == ("s00000001", "hello", True)
    assert reading.unmatched == {}


def test_the_unmatched_path_of_each_section_is_named() -> None:
    """Without values at their paths, each section names its own."""
    said: list[dict[str, Any]] = [{"type": "message", "content": ["hello"]}] * 14
    records: list[dict[str, Any]] = [{"type": "started", "sessions": []}, *said, {"kind": "done"}]
    changed = contract(end={"match": {"state.kind": "done"}}, events={"field": "event.type"})
    assert read(changed, *records) == {
        "handle": "`sessions.0.id` matched nothing in the only record where type = 'started'; "
        "`sessions` is a list, and it has no item 0",
        "end": "`state.kind` matched none of 16 records",
        "final": "`content.0.text` matched no text in 14 records where type = 'message'; "
        "`content` is a list, and `content.0` is text",
        "events": "`event.type` matched none of 16 records",
    }


def test_the_record_that_comes_closest_explains() -> None:
    """Of many records, the obstacle is that of the one in which the path leads farthest."""
    watch = RuleWatch(None, {"a.b.c": Wanted.ANYTHING}, None)
    for record in ({}, {"a": {"b": 1}}, {"a": 2}, {"x": 1}):
        watch.see(record, 0)
    assert watch.unmatched(None) == "`a.b.c` matched none of 4 records; `a.b` is a number"


@pytest.mark.parametrize(
    "records",
    [
        [],
        [{"type": "text"}],
        [{"type": "message", "role": "user"}],
        [{"type": "message"}, {"type": "message", "role": "agent", "content": [{"text": "a"}]}],
    ],
    ids=["no record", "another kind", "another value", "at last"],
)
def test_a_path_that_matched_or_was_not_looked_for_is_not_named(records: list[dict[str, Any]]) -> None:
    """A rule names no path if it applied, if there was no record of its kind, or if only values differ."""
    changed = contract(final={"match": {"type": "message", "role": "agent"}})
    assert "final" not in read(changed, *records)


def test_conditions_before_the_path_are_named_with_it() -> None:
    """The records that count are those which meet the conditions before."""
    changed = contract(final={"match": {"type": "message", "role": "agent"}})
    records = [{**SAID, "content": []}, {**SAID, "content": [{}]}, {**SAID, "role": "user"}, {"type": "message"}]
    assert read(changed, *records)["final"] == (
        "`content.0.text` matched no text in 2 records where type = 'message' and role = 'agent'; "
        "`content` is a list, and `content.0` has no `text`"
    )


def test_the_kind_of_records_that_no_record_has_is_named_by_every_section() -> None:
    """If no record has a kind, no rule about kinds can apply."""
    reported = "`type` matched none of 2 records"
    assert read(contract(), {"a": 1}, {"b": 1}) == dict.fromkeys(("handle", "end", "final", "events"), reported)


def test_a_failed_turn_says_which_path_matched_nothing() -> None:
    """The failure names the path of the text, and of the end."""
    stdout = "".join(f"{json.dumps(record)}\n" for record in (STARTED, {**SAID, "content": "hello"}, DONE)).encode()
    said = read_turn(contract(), "auto", stdout, b"", 0).result.failure_reason
    assert said == (
        "ENGINE_FAILED: the engine gave no answer, but may have changed files: "
        "`content.0.text` matched no text in the only record where type = 'message'; `content` is text"
    )
    changed = contract(end={"match": {"status.kind": "done"}})
    said = read_turn(changed, "auto", stdout, b"", 0).result.failure_reason
    assert said == (
        "ENGINE_FAILED: nothing on stdout proves that the turn ended: `status.kind` matched none of 3 records"
    )
