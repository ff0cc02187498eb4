"""Dispatches the records that an engine printed to observers, and counts them by kind."""

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from turngate.contract.values import Match
from turngate.turn.paths import Record, matcher, matches, obstacle_at, unmatched, value_at


def shown(value: object) -> str:
    """Render a value as text; a value nested too deeply to render becomes an ellipsis."""
    try:
        return str(value)
    except RecursionError:
        return "…"


MAX_KINDS = 1000
MAX_KIND = 100
Call = Callable[[Record, int], bool | None]


class RecordHandler(Struct, frozen=True):
    """A function to call with each matching record and its index in the stream, until it returns True."""

    match: Match | None
    call: Call


class RecordDispatch:
    """Dispatches the records of a stream; `census` counts them by the value of `field`, or else by their keys."""

    def __init__(self, looks: Sequence[RecordHandler], field: str | None, *, counted: bool) -> None:
        self.census: dict[str, int] = {}
        self.seen = 0
        self._looks, self._field, self._counted = looks, field, counted
        self._by_kind: dict[str, list[Call]] = {}
        self._has_kinds, self._obstacle = False, ""

    @property
    def without_kinds(self) -> str | None:
        """Why no record has a kind; None if one has, if kinds are keys, or if there are no records."""
        if self._field is None or self._has_kinds or not self.census:
            return None
        return unmatched(self._field, self.seen, obstacle=self._obstacle)

    def see(self, records: Iterable[Record]) -> None:
        """Take the next records of the stream."""
        if self._field is None or not self._counted:
            self._see_without_kind(records)
            return
        census, by_kind, field, index = self.census, self._by_kind, self._field, self.seen - 1
        for index, record in enumerate(records, self.seen):
            kind = record.get(field)
            if kind.__class__ is not str:
                kind = shown(value_at(record, field))
            calls = by_kind.get(kind)
            if calls is None:
                calls = self._meet(kind)
                self._note_kind(record, field)
            else:
                census[kind] += 1
            for call in calls:
                if call(record, index) and kind in by_kind:
                    by_kind[kind] = [other for other in by_kind[kind] if other is not call]
        self.seen = index + 1

    def _note_kind(self, record: Record, field: str) -> None:
        if value_at(record, field) is not None:
            self._has_kinds = True
        elif not self._obstacle:
            _, self._obstacle = obstacle_at(record, field)

    def _meet(self, kind: str) -> list[Call]:
        """Return the observers of a new kind of record; excess or overlong kinds are not cached."""
        calls = [call for look in self._looks if (call := self._for_kind(look, kind))]
        if self._count(kind) == kind:
            self._by_kind[kind] = calls
        return calls

    def _count(self, name: str) -> str:
        """Count a kind or a key and return its name in the census, shortened; kinds beyond the limit share one name."""
        counted = name if len(name) <= MAX_KIND else name[:MAX_KIND] + "…"
        if counted not in self.census and len(self.census) >= MAX_KINDS:
            counted = "…"
        self.census[counted] = self.census.get(counted, 0) + 1
        return counted

    def _for_kind(self, look: RecordHandler, kind: str) -> Call | None:
        match = dict(look.match or {})
        if self._field in match and match.pop(self._field) != kind:
            return None
        if not match:
            return look.call

        has_all = matcher(match)
        return lambda record, index: look.call(record, index) if has_all(record) else None

    def _see_without_kind(self, records: Iterable[Record]) -> None:
        index = self.seen - 1
        for index, record in enumerate(records, self.seen):
            if self._counted:
                for key in record:
                    self._count(str(key))
            for look in self._looks:
                if matches(record, look.match):
                    look.call(record, index)
        self.seen = index + 1
