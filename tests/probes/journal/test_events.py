"""The events of a journal."""

import msgspec

from tests.probes import turns as t
from turngate.contract.clauses import Result
from turngate.contract.load import catalogue
from turngate.contract.verdict import ClauseResult, decode_hook
from turngate.decoding import decode
from turngate_probes.journal.events import ClauseEvent, Event, InstallProgress, ProbeFinished, TurnEvent
from turngate_probes.journal.journal import seen_event

CLAUSE = catalogue()["handle.present"]
RESULT = ClauseResult.of(CLAUSE, Result.FAIL, "it was not", ["main/first"], stale=True)


def test_each_event_is_read_as_its_kind() -> None:
    """Each encoded event is decoded to an equal event of the same class."""
    turn = seen_event("codex@1", t.turn("main/first"), {}, t.CODEX)
    events: list[Event] = [
        ClauseEvent.about("codex@1", RESULT),
        InstallProgress(release="codex@1", text="half"),
        turn,
        ProbeFinished(seconds=1.0, engine_seconds=0.5, interrupted=False),
    ]
    for event in events:
        decoded = decode(msgspec.json.encode(event), Event, dec_hook=decode_hook)
        assert (type(decoded), decoded) == (type(event), event)
    assert isinstance(turn, TurnEvent)
    assert turn.name == "main/first"
