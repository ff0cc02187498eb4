"""Tests of the events in the store: each kind is read as it was added, and those of earlier releases, too."""

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import get_args

import pytest

from tests.reference.saved_data import unpack
from turngate_reference.server.store.database import Store
from turngate_reference.server.store.events import (
    CancelEvent,
    DeliveryEvent,
    EventData,
    QuestionEvent,
    ReplyEvent,
    ReplyReturnEvent,
    StateEvent,
    TextEvent,
    TurnEndEvent,
    TurnStartEvent,
    add_event,
    stored,
)
from turngate_reference.states import Delivery, RunError, State

ROOT = Path(__file__).parents[4]
ASKED = QuestionEvent(
    interaction_id="1", kind="choose_one", prompt="?", options=("a",), required_fields=(), context={"why": [1, None]}
)
EVENTS: list[EventData] = [
    StateEvent(State.RUNNING, 1),
    StateEvent(State.FAILED, 2, RunError("ENGINE_FAILED", "it stopped")),
    TurnStartEvent(1),
    DeliveryEvent(1, Delivery.LIVING_PROCESS),
    TurnEndEvent(1, "final"),
    TextEvent(1, "half a pair: \ud800"),
    ASKED,
    ReplyEvent("1"),
    ReplyEvent("1", terminal=True),
    ReplyReturnEvent("1", "ENGINE_UNAVAILABLE", "codex is not installed"),
    CancelEvent(),
]


@pytest.fixture(name="store")
def _store(tmp_path: Path) -> Iterator[Store]:
    """Provide the store of an earlier release, upgraded, with runs in every state."""
    with closing(Store(unpack(tmp_path).database)) as store:
        yield store


def test_each_kind_is_read_as_it_was_added(store: Store) -> None:
    """The name of the kind is beside the data, which has no value that says nothing."""
    run_id = store.read("SELECT run_id FROM runs")[0]["run_id"]
    last = store.read("SELECT max(id) last FROM events")[0]["last"]
    with store.writing() as connection:
        for event in EVENTS:
            add_event(connection, run_id, event)
    rows = store.read("SELECT * FROM events WHERE id > ? ORDER BY id", last)
    assert [event.data for event in stored(rows)] == EVENTS
    assert {type(event) for event in EVENTS} == {*get_args(EventData)}
    assert [json.loads(row["data_json"]) for row in rows if row["type"] in ("reply", "cancel.requested")] == [
        {"interaction_id": "1"},
        {"interaction_id": "1", "terminal": True},
        {},
    ]


def test_events_of_an_earlier_release_are_read(store: Store) -> None:
    """Every event that it has stored."""
    rows = store.read("SELECT * FROM events ORDER BY id")
    assert [event.type for event in stored(rows)] == [row["type"] for row in rows]
    assert {row["type"] for row in rows} > {"state", "turn.started", "text", "interaction", "reply"}


def test_each_kind_is_documented() -> None:
    """In the table of docs/api.md, which names no other."""
    _, _, table = (ROOT / "docs/api.md").read_text("utf-8").partition("| event | meaning |")
    named = re.findall(r"^\| `([a-z.]+)` \|", table.partition("\n\n")[0], re.MULTILINE)
    assert sorted(named) == sorted(data.type for data in get_args(EventData))
