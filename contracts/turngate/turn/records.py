"""Dispatches the records that an engine printed to observers, and counts them by kind."""

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from turngate.contract.values import Match
from turngate.turn.paths import Record, getter, obstacle_at, unmatched, value_at


def shown(value: object) -> str:
    """Render a value as text; a value nested too deeply to render becomes an ellipsis."""
    try:
        return str(value)
    except RecursionError:
        return "…"


MAX_KINDS = 1000
MAX_KIND = 100
NO_VALUE: object = object()
Call = Callable[[Record, int], bool | None]


class RecordHandler(Struct, frozen=True):
    """A function to call with each matching record and its index in the stream, until it returns True."""

    match: Match | None
    call: Call


class Repeated:
    """A value that records repeat under a key: `call` is called with the records that have another one."""

    __slots__ = ("call", "key", "value")

    def __init__(self, key: str, call: Call) -> None:
        """Expect no value, so that every record is passed on, until `value` is set."""
        self.key, self.call, self.value = key, call, NO_VALUE


class _Kind:
    """A kind of records: what is still to be called with each, and how many there were."""

    __slots__ = ("calls", "count")

    def __init__(self, calls: list[Call]) -> None:
        self.calls, self.count = calls, 0


class RecordDispatch:
    """Dispatches the records of a stream; `census` counts them by the value of `field`, or else by their keys."""

    def __init__(
        self, looks: Sequence[RecordHandler], field: str | None, *, counted: bool, repeated: Repeated | None = None
    ) -> None:
        self.seen = 0
        self._repeated = repeated
        self._looks, self._field, self._counted = looks, field, counted
        # the numbers of records of the kinds in `_by_kind` are there
        self._counts: dict[str, int] = {}
        self._by_kind: dict[str, _Kind] = {}
        self._has_kinds, self._obstacle = False, ""

    @property
    def census(self) -> dict[str, int]:
        """The number of records of each kind, or with each key."""
        known = {name: kind.count for name, kind in self._by_kind.items()}
        return {name: number + known.get(name, 0) for name, number in self._counts.items()}

    @property
    def without_kinds(self) -> str | None:
        """Why no record has a kind; None if one has, if kinds are keys, or if there are no records."""
        if self._field is None or self._has_kinds or not self._counts:
            return None
        return unmatched(self._field, self.seen, obstacle=self._obstacle)

    def see(self, records: Iterable[Record]) -> None:
        """Take the next records of the stream."""
        if self._field is None or not self._counted:
            self._see_without_kind(records)
            return
        by_kind, field, repeated, index = self._by_kind, self._field, self._repeated, self.seen - 1
        key = repeated.key if repeated else ""
        # this runs for every line of long transcripts, which nearly always has a known kind
        for index, record in enumerate(records, self.seen):
            try:
                kind = by_kind[record[field]]
            except (KeyError, TypeError):
                kind = self._meet(record, field)
            kind.count += 1
            if repeated and record.get(key) != repeated.value:
                repeated.call(record, index)
            for call in kind.calls:
                if call(record, index):
                    kind.calls = [other for other in kind.calls if other is not call]
        self.seen = index + 1

    def _note_kind(self, record: Record, field: str) -> None:
        if value_at(record, field) is not None:
            self._has_kinds = True
        elif not self._obstacle:
            _, self._obstacle = obstacle_at(record, field)

    def _meet(self, record: Record, field: str) -> _Kind:
        """Return the kind of a record; excess or overlong kinds are counted, but not cached."""
        name = record.get(field)
        if name.__class__ is not str:
            name = shown(value_at(record, field))
        if name in self._by_kind:
            return self._by_kind[name]
        self._note_kind(record, field)
        kind = _Kind([call for look in self._looks if (call := self._for_kind(look, name))])
        if self._count(name, 0) == name:
            self._by_kind[name] = kind
        else:
            self._count(name, 1)
        return kind

    def _count(self, name: str, number: int) -> str:
        """Count a kind or a key, and return its short name in the census; kinds beyond the limit share one name."""
        counted = name if len(name) <= MAX_KIND else name[:MAX_KIND] + "…"
        if counted not in self._counts and len(self._counts) >= MAX_KINDS:
            counted = "…"
        self._counts[counted] = self._counts.get(counted, 0) + number
        return counted

    def _for_kind(self, look: RecordHandler, kind: str) -> Call | None:
        match = dict(look.match or {})
        if self._field in match and match.pop(self._field) != kind:
            return None
        return _guarded(look.call, match)

    def _see_without_kind(self, records: Iterable[Record]) -> None:
        calls, index = [_guarded(look.call, look.match or {}) for look in self._looks], self.seen - 1
        if self._repeated:
            calls.insert(0, self._repeated.call)
        for index, record in enumerate(records, self.seen):
            if self._counted:
                for key in record:
                    self._count(str(key), 1)
            for call in calls:
                call(record, index)
        self.seen = index + 1


def _guarded(call: Call, match: Match) -> Call:
    """Return the function that calls another one with the records that have every value of `match`."""
    for path, value in reversed(list(match.items())):
        call = _where(getter(path), value, call)
    return call


def _where(get: Callable[[Record], object], value: object, call: Call) -> Call:
    return lambda record, index: call(record, index) if get(record) == value else None
