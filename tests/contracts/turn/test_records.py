import pytest

from tests.tables import each
from turngate.contract.values import Match
from turngate.turn import records as watch
from turngate.turn.records import Record, RecordDispatch, RecordHandler, Repeated

Seen = list[tuple[int, Record]]


def looked(
    match: Match | None, *batches: list[Record], field: str | None, counted: bool
) -> tuple[Seen, RecordDispatch]:
    """Pass records in batches to an observer; return the records that it got, and the counter."""
    seen: Seen = []
    made = RecordDispatch(
        [RecordHandler(match, lambda record, index: seen.append((index, record)))], field, counted=counted
    )
    for batch in batches:
        made.see(batch)
    return seen, made


@each("field, counted", [("type", True), ("type", False), (None, True), (None, False)])
@each("match", [None, {"type": "a"}, {"n": 1}, {"type": "a", "n": 1}, {"n": 1, "deep.type": "a"}])
def test_whoever_looks_gets_what_matches_by_its_index(match: Match | None, field: str | None, *, counted: bool) -> None:
    """An observer gets the same matching records, numbered across batches, whether or not kinds are counted."""
    records: list[Record] = [
        *({"type": kind, "n": n, "deep": {"type": kind}} for kind in "aba" for n in (1, 2)),
        {"n": 1, "deep": {"type": "a"}},
    ]
    wanted = {path.removeprefix("deep."): value for path, value in (match or {}).items()}
    kinds = [record["deep"] | record for record in records] if match and "deep.type" in match else records
    expected = [(i, records[i]) for i, record in enumerate(kinds) if wanted.items() <= record.items()]
    seen, made = looked(match, records[:3], [], records[3:], field=field, counted=counted)
    assert (seen, made.count) == (expected, len(records))


@each(
    "field, counted, census",
    [
        ("type", True, {"a": 2, "7": 1, "None": 1}),
        ("deep.type", True, {"b": 1, "None": 3}),
        (None, True, {"type": 3, "deep": 1, "n": 1}),
        ("type", False, {}),
        (None, False, {}),
    ],
)
def test_census_counts_kinds_or_keys(field: str | None, census: dict[str, int], *, counted: bool) -> None:
    """Records are counted by a field's text, by their keys if there is no such field, or not at all."""
    records: list[Record] = [{"type": "a"}, {"type": 7, "deep": {"type": "b"}}, {"n": 1}, {"type": "a"}]
    assert looked(None, records[:1], records[1:], field=field, counted=counted)[1].census == census


def test_census_of_endless_kinds_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kinds beyond the limit are counted together, earlier ones still separately."""
    monkeypatch.setattr(watch, "MAX_KINDS", 2)
    _, made = looked(None, [{"type": kind} for kind in "abcdaca"], field="type", counted=True)
    assert made.census == {"a": 3, "b": 1, "…": 3}


def test_a_kind_beyond_the_limit_is_still_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record of a kind beyond the limit is still passed to its observer."""
    monkeypatch.setattr(watch, "MAX_KINDS", 2)
    seen, _ = looked({"type": "d"}, [{"type": kind} for kind in "abcdd"], field="type", counted=True)
    assert [index for index, _ in seen] == [3, 4]


def test_long_kinds_are_counted_in_short_and_not_remembered() -> None:
    """A very long kind is counted by its beginning, and its record is still passed to its observer."""
    long = "k" * 10**6
    seen, made = looked({"type": long}, [{"type": long}, {"type": long + "x"}], field="type", counted=True)
    assert (made.census, [index for index, _ in seen]) == ({"k" * 100 + "…": 2}, [0])
    assert made._by_kind == {}


def test_a_kind_that_reads_as_a_shortened_one_is_looked_at_by_itself() -> None:
    """A kind that equals the shortened form of a longer one is treated separately."""
    short = "k" * 99
    kinds = ["k" * 101, short, "k" * 101, short]
    seen, _ = looked({"type": short}, [{"type": kind} for kind in kinds], field="type", counted=True)
    assert [index for index, _ in seen] == [1, 3]


def test_census_of_endless_keys_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a field, keys are counted, within the same limits as kinds."""
    monkeypatch.setattr(watch, "MAX_KINDS", 2)
    _, made = looked(None, [{"a": 1, "b" * 101: 1, "c": 1, "d": 1}, {"a": 1}], field=None, counted=True)
    assert made.census == {"a": 2, "b" * 100 + "…": 1, "…": 2}


@pytest.mark.parametrize("field, counted", [("type", True), ("type", False), (None, True)])
def test_records_with_another_value_are_always_passed_on(field: str | None, *, counted: bool) -> None:
    """A record that lacks the repeated value, or has another one, is passed on with its index, before its handlers."""
    seen: list[tuple[str, int]] = []
    repeated = Repeated("id", lambda _record, index: seen.append(("repeated", index)))
    handler = RecordHandler({"type": "a"}, lambda _record, index: seen.append(("handler", index)))
    made = RecordDispatch([handler], field, counted=counted, repeated=repeated)
    made.see([{"id": None}])
    repeated.value = "x"
    made.see([{"id": "x", "type": "b"}, {"type": "a"}, {"id": "y", "type": "a"}])
    passed = [("repeated", 0), ("repeated", 2), ("handler", 2), ("repeated", 3), ("handler", 3)]
    assert [found for found in seen if found != ("repeated", 1)] == passed
