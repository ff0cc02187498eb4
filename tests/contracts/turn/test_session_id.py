import re
from collections import Counter
from functools import partial
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.contracts.releases import CODEX_ID
from tests.tables import each
from turngate.contract.engine_contract import HandlePlace
from turngate.contract.launch import Stream
from turngate.contract.session_ids import MAX_BYTES, numbered_like
from turngate.contract.values import Match
from turngate.turn.read import STREAMS
from turngate.turn.records import Record, RecordDispatch, RecordHandler
from turngate.turn.session_id import HandleFinder, HandleProblem, HandleReading

FIRST = HandlePlace(
    record="first", field="id", shape="[0-9a-f-]{36}", nonexistent_id=CODEX_ID, match={"type": "started"}
)
EVERY = replace(FIRST, record="every", match=None)
LAST = replace(FIRST, record="last", match={"type": "result"})
ONLY = replace(FIRST, record="only", match=None, field="session.id")
OTHER = CODEX_ID.replace("0", "1")
STARTED = {"type": "started", "id": CODEX_ID}
RESULT = {"type": "result", "id": CODEX_ID}
Seen = tuple[Stream, Record]


def look(place: HandlePlace, *seen: Seen) -> HandleReading:
    """Pass records of streams to a finder, as a turn's reader does, and return its reading."""
    finder, streams = HandleFinder(place), dict[Stream, RecordDispatch]()
    for stream in STREAMS:
        repeated = finder.repeated if stream == place.stream else None
        match = None if place.record == "every" else place.match
        looks = [] if repeated else [RecordHandler(match, partial(finder.see, stream))]
        streams[stream] = RecordDispatch(looks, "type", counted=True, repeated=repeated)
    for stream, record in seen:
        streams[stream].see([record])
    return finder.reading(streams[place.stream].count)


def _said(record: Record) -> Seen:
    return "stdout", record


def test_id_in_its_place() -> None:
    """The id comes from the first record, and the reading describes its place."""
    reading = look(FIRST, ("stdout", STARTED), ("stdout", {"type": "text", "id": OTHER}))
    assert (reading.value, reading.problem) == (CODEX_ID, None)
    assert reading.detail == "id of record 1 of stdout"


@each(
    "place, seen, problem",
    [
        (FIRST, [], "MISSING"),
        (FIRST, [("stdout", {"type": "started"})], "MISSING"),
        (FIRST, [("stdout", {"type": "started", "id": None})], "MISSING"),
        (FIRST, [("stdout", {"type": "other", "id": CODEX_ID})], "MISSING"),
        (FIRST, [("stdout", {"thread": CODEX_ID})], "MISSING"),
        (FIRST, [("stdout", {"type": "started"}), ("stdout", STARTED)], "PLACE"),
        (FIRST, [("stderr", STARTED)], "PLACE"),
        (FIRST, [("stdout", STARTED), ("stdout", {**STARTED, "id": OTHER})], "PLACE"),
        (FIRST, [("stdout", STARTED), ("stderr", {**STARTED, "id": OTHER})], "PLACE"),
        (FIRST, [("stdout", {**STARTED, "id": 7})], "UNSAFE"),
        (FIRST, [("stdout", {**STARTED, "id": ""})], "UNSAFE"),
        (FIRST, [("stdout", {**STARTED, "id": False})], "UNSAFE"),
        (FIRST, [("stdout", {**STARTED, "id": [CODEX_ID]})], "UNSAFE"),
        (FIRST, [("stdout", {**STARTED, "id": CODEX_ID + "\n"})], "UNSAFE"),
        (FIRST, [("stdout", {**STARTED, "id": "--yolo"})], "UNSAFE"),
        (EVERY, [("stdout", {"id": CODEX_ID}), ("stdout", {})], "PLACE"),
        (EVERY, [("stdout", {}), ("stdout", {"id": CODEX_ID})], "PLACE"),
        (EVERY, [("stdout", {"id": CODEX_ID}), ("stdout", {"id": OTHER})], "PLACE"),
        (LAST, [("stdout", STARTED), ("stdout", {"type": "result"})], "MISSING"),
        (LAST, [("stdout", RESULT), ("stdout", STARTED)], "PLACE"),
        (LAST, [("stdout", {}), ("stderr", RESULT)], "PLACE"),
        (LAST, [("stdout", {**RESULT, "id": OTHER}), ("stdout", RESULT)], "PLACE"),
        (LAST, [("stdout", STARTED), ("stdout", {**RESULT, "id": 7})], "UNSAFE"),
        (ONLY, [("stdout", {"session": CODEX_ID})], "MISSING"),
        (ONLY, [("stdout", {"session.id": CODEX_ID})], "MISSING"),
        (ONLY, [("stdout", {"session": {"id": CODEX_ID}}), ("stdout", {})], "PLACE"),
        (ONLY, [("stdout", {"session": [{"id": CODEX_ID}]})], "MISSING"),
    ],
)
def test_id_out_of_place_is_never_given(place: HandlePlace, seen: list[Seen], problem: str) -> None:
    """An id that is missing, misplaced, contradicted or malformed is reported and not returned."""
    reading = look(place, *seen)
    assert (reading.value, reading.problem) == (None, HandleProblem[problem])
    assert reading.detail


def test_an_id_after_the_end_of_the_turn_is_out_of_place() -> None:
    """What comes before the turn changes nothing, but an id that comes after its end is too late."""
    finder = HandleFinder(FIRST)
    finder.see("stdout", STARTED, 3)
    assert finder.reading(5, end=4).value == CODEX_ID
    late = finder.reading(5, end=2)
    assert (late.problem, late.detail) == (HandleProblem.PLACE, "id is in record 4, after the end of the turn")


def test_only_the_records_that_match_are_only_one() -> None:
    """Other records may stand beside the one with the id; a second one must not contradict it."""
    place = replace(ONLY, match={"type": "result"}, field="id")
    reading = look(place, _said({"type": "text"}), _said(RESULT), _said(RESULT))
    assert (reading.value, reading.detail) == (CODEX_ID, "id of record 2 of stdout")
    assert look(place, _said(RESULT), _said({**RESULT, "id": OTHER})).problem is HandleProblem.PLACE


def test_every_record_may_repeat_the_id() -> None:
    """If each record has the id, equal ids count once, and records of the other stream need none."""
    reading = look(EVERY, *[_said({"id": CODEX_ID})] * 200, ("stderr", {}))
    assert (reading.value, len(reading.occurrences)) == (CODEX_ID, 1)


def test_later_mention_of_the_same_id_is_no_contradiction() -> None:
    """An engine may repeat its session id."""
    assert look(FIRST, ("stdout", STARTED), ("stdout", STARTED), ("stderr", STARTED)).value == CODEX_ID


def test_the_last_record_may_give_the_id() -> None:
    """The id comes from the last record, also if an earlier one repeats it or the other stream goes on."""
    for before in ([], [{"type": "text"}], [RESULT, {"type": "text"}], [{"type": "text", "id": OTHER}]):
        assert look(LAST, *map(_said, before), _said(RESULT), ("stderr", {})).value == CODEX_ID


@pytest.mark.parametrize("other", [CODEX_ID, OTHER])
def test_interleaving_of_the_streams_says_nothing(other: str) -> None:
    """The order in which records of the two streams arrive doesn't matter."""
    seen: list[Seen] = [("stdout", STARTED), ("stderr", {**STARTED, "id": other}), ("stderr", {"type": "x"})]
    readings = [look(FIRST, *order) for order in permutations(seen)]
    assert len({(reading.value, reading.problem) for reading in readings}) == 1


def test_sightings_are_bounded_and_contradiction_is_not_forgotten() -> None:
    """Of a thousand different ids the first few are reported."""
    reading = look(EVERY, *[_said({"id": str(i)}) for i in range(1000)])
    assert (reading.problem, len(reading.occurrences)) == (HandleProblem.PLACE, 50)


@pytest.mark.parametrize("place", [FIRST, EVERY])
def test_a_long_id_is_never_kept_whole_and_never_given(place: HandlePlace) -> None:
    """Of a very long value only the beginning is kept, and it is never returned as an id."""
    anything = replace(place, shape="(?s:.*)")
    long = [_said({"type": "started", "id": "s" * 10**6 + str(i)}) for i in range(60)]
    reading = look(anything, *long)
    assert (reading.value, reading.problem) == (None, HandleProblem.UNSAFE)
    assert sum(len(str(seen.value)) for seen in reading.occurrences) < 2000
    assert len(reading.detail) < 200
    assert look(anything, _said({"type": "started", "id": "s" * 512})).value == "s" * 512


def test_an_id_of_many_values_is_none() -> None:
    """A list is no id, and only its beginning is kept."""
    many: tuple[object, ...] = (["s"] * 10**5, {"s": [{}] * 10**5})
    for odd in many:
        reading = look(EVERY, _said({"id": odd}))
        assert reading.problem is HandleProblem.UNSAFE
        assert len(str(reading.occurrences)) < 1200


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=200).filter(str.strip))
def test_an_id_is_opaque(value: str) -> None:
    """Any text is an id if it is no flag and not too long; a shape that the contract doesn't know is noted."""
    reading = look(FIRST, _said({**STARTED, "id": value}))
    is_safe = not value.startswith("-") and len(value.encode()) <= MAX_BYTES
    assert reading.value == (value if is_safe else None)
    assert bool(reading.unfamiliar) is (is_safe and not re.fullmatch(FIRST.shape, value))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(STREAMS),
            st.dictionaries(
                st.sampled_from(("id", "type")),
                st.sampled_from((CODEX_ID, OTHER, "started", 1, True, None, "s" * 2000)),
            ),
        )
    )
)
@pytest.mark.parametrize("match", [None, {"type": "started"}])
def test_records_that_repeat_the_id_may_be_skipped(match: Match | None, seen: list[Seen]) -> None:
    """Of records that must all hold the id, those that repeat it change nothing, whatever the other stream holds."""
    place = replace(EVERY, match=match)
    finder, count = HandleFinder(place), Counter[Stream]()
    for stream, record in seen:
        finder.see(stream, record, count[stream])
        count[stream] += 1
    assert look(place, *seen) == finder.reading(count["stdout"])


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(("id", "type", "session")), st.sampled_from((CODEX_ID, OTHER, "started", 1, None))
        )
    )
)
def test_only_the_first_record_that_matches_can_give_an_id(records: list[dict[str, object]]) -> None:
    """An id that is returned was in the first record that matches, and no other record contradicts it."""
    reading = look(FIRST, *map(_said, records))
    if reading.value is not None:
        first = next(record for record in records if record.get("type") == "started")
        assert first["id"] == reading.value
        assert {r["id"] for r in records if r.get("type") == "started" and r.get("id")} == {reading.value}


@each(
    "dead, number, made",
    [
        ("00000000-0000-4000-8000-000000000000", 7, "00000000-0000-4000-8000-000000000007"),
        ("ses_000000000000AAAAAAAAAAAAAA", 12, "ses_000000000012AAAAAAAAAAAAAA"),
        ("000000x", 1, "000001x"),
        ("00000", 1, None),
        ("session", 1, None),
    ],
)
def test_numbered_id_keeps_the_shape(dead: str, number: int, made: str | None) -> None:
    """A number replaces the end of the last long run of zeros, so the id keeps its length."""
    assert numbered_like(dead, number) == made


@each(
    "place, seen, detail",
    [
        (FIRST, [("stdout", {})], "no record of stdout has id where type = 'started'"),
        (EVERY, [("stderr", {"id": 1}), ("stdout", {})], "id is on stderr, not on stdout"),
        (FIRST, [("stdout", {})] * 2 + [("stdout", STARTED)], "id of record 3 of stdout"),
        (
            FIRST,
            [("stdout", {"type": "started"}), ("stdout", STARTED)],
            "id is in record 2, not in the first that matches",
        ),
        (replace(FIRST, match=None), [("stdout", {}), ("stdout", STARTED)], "id is in record 2, not in the first"),
        (ONLY, [("stdout", {}), ("stdout", {"session": STARTED})], "session.id is in record 2, not in the first"),
        (LAST, [("stdout", RESULT), ("stdout", {}), ("stdout", {})], "id is in record 1 of 3, not in the last"),
        (LAST, [("stdout", {}), ("stdout", RESULT)], "id of the last record of stdout"),
        (EVERY, [("stdout", {}), ("stdout", {"id": 1}), ("stdout", {})], "2 records lack id"),
        (ONLY, [("stdout", {"session": STARTED}), ("stdout", {})], "stdout has 2 records, not one"),
        (EVERY, [("stdout", {"id": 1}), ("stdout", {"id": 2})], "a second, different id: 2 after 1"),
        (EVERY, [("stdout", {"id": 7})], "id 7 is no text"),
        (EVERY, [("stdout", {"id": CODEX_ID})] * 2, "id of each record of stdout"),
        (ONLY, [("stdout", {"session": STARTED})], "session.id of the only record of stdout"),
    ],
)
def test_reading_says_what_was_seen_where(place: HandlePlace, seen: list[Seen], detail: str) -> None:
    """The detail names field, stream and record, counted from 1."""
    assert look(place, *seen).detail == detail


def test_record_that_does_not_match_lacks_the_id_that_every_one_must_hold() -> None:
    """If every record must match and hold the id, a record of another kind counts as lacking it."""
    place = replace(FIRST, record="every")
    assert look(place, _said(STARTED)).value == CODEX_ID
    reading = look(place, _said({"type": "other", "id": CODEX_ID}), _said(STARTED))
    assert (reading.value, reading.detail) == (None, "1 records lack id")
