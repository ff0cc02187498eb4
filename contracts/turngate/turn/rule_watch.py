"""Finds the path of a rule that matched no record, so that a mistake in a contract can be told from a silent engine."""

from collections.abc import Mapping
from enum import Enum

from msgspec import Struct

from turngate.contract.launch import Stream
from turngate.contract.structs import EngineContract
from turngate.contract.values import Match
from turngate.turn.paths import Record, getter, obstacle_at, unmatched, value_at
from turngate.turn.records import Call, RecordDispatch, RecordHandler


class Wanted(Enum):
    """What a rule requires at a path, other than a certain value."""

    ANYTHING = "anything"
    TEXT = "text"


class _Condition(Struct):
    """What a rule requires at a path; `records` met the conditions before this one, `accepted` also this one.

    Once a record has another value, only accepted records are counted.
    """

    path: str
    wanted: object
    records: int = 0
    accepted: int = 0
    has_other_value: bool = False
    depth: int = -1
    obstacle: str = ""

    def accepts(self, record: Record) -> bool:
        """Count a record, and return whether it meets this condition."""
        value = value_at(record, self.path)
        met = self._is_met(value)
        if self.has_other_value and not met:
            return False
        self.records += 1
        self.accepted += met
        if not met and value is not None and not isinstance(self.wanted, Wanted):
            self.has_other_value = True
        elif not met and not self.accepted:
            depth, obstacle = obstacle_at(record, self.path)
            if depth > self.depth:
                self.depth, self.obstacle = depth, obstacle
        return met

    def unmatched(self, before: list[str]) -> str | None:
        """Say that no record has this path, of those that met the conditions before; None if one has another value."""
        if self.has_other_value:
            return None
        where = f" where {' and '.join(before)}" if before else ""
        return unmatched(self.path, self.records, where, obstacle=self.obstacle, text=self.wanted is Wanted.TEXT)

    def _is_met(self, value: object) -> bool:
        if self.wanted is Wanted.TEXT:
            return isinstance(value, str)
        return value is not None if self.wanted is Wanted.ANYTHING else value == self.wanted

    def __str__(self) -> str:
        return f"{self.path} = {self.wanted!r}"


class RuleWatch:
    """Watches records until one meets all conditions of a rule."""

    def __init__(self, match: Match | None, fields: dict[str, Wanted], kind: str | None) -> None:
        """Watch for the values of `match`, then for `fields`; `kind` is the path by which records are dispatched.

        `see` takes only records that meet `condition`, which is the part of `match` about `kind`.
        """
        values = dict(match or {})
        self.condition: Match | None = {kind: values.pop(kind)} if kind in values else None
        self._conditions = [_Condition(path, wanted) for path, wanted in (*values.items(), *fields.items())]
        self._seen, self._applied = False, False

    def observer(self) -> Call:
        """Return an observer of records, which does as `see`."""
        if not self._conditions:
            return self.see
        first, see = self._conditions[0], self.see
        get, wanted = getter(first.path), first.wanted

        def observe(record: Record, index: int) -> bool:
            # once a record has another value, only accepted records are counted
            return not (first.has_other_value and get(record) != wanted) and see(record, index)

        return observe

    def see(self, record: Record, _index: int) -> bool:
        """Take the next record, and return whether the rule has applied, so that no more are needed."""
        self._seen = True
        for condition in self._conditions:
            if not (self._applied or condition.accepts(record)):
                return False
        self._applied = True
        return True

    def unmatched(self, without_kinds: str | None) -> str | None:
        """Name the path that kept the rule from applying; None if it applied, or if only values differ.

        `without_kinds` names the path `kind` if no record has it.
        """
        if not self._seen:
            return without_kinds if self.condition else None
        before = [f"{path} = {value!r}" for path, value in (self.condition or {}).items()]
        for condition in self._conditions:
            if not condition.accepted:
                return condition.unmatched(before)
            before.append(str(condition))
        return None


class RuleWatches:
    """Watches the rules of a contract that apply to every good turn: `handle`, `end` and `final`."""

    def __init__(self, contract: EngineContract) -> None:
        place, end, final, events = contract.handle, contract.end, contract.final, contract.events
        texts = {path: wanted for path, wanted in ((final.field, Wanted.TEXT), (final.group, Wanted.ANYTHING)) if path}
        rules: dict[str, tuple[Stream, Match | None, dict[str, Wanted]]] = {
            "handle": (place.stream, place.match, {place.field: Wanted.ANYTHING}),
            "end": (end.stream, end.match, {}),
            "final": (final.stream, final.match, texts),
        }
        self._events = events.stream
        self._rules = {
            name: (stream, RuleWatch(match, paths, events.field if stream == events.stream else None))
            for name, (stream, match, paths) in rules.items()
        }

    def handlers(self, stream: Stream) -> list[RecordHandler]:
        """Return the observers of a stream's records."""
        return [RecordHandler(rule.condition, rule.observer()) for of, rule in self._rules.values() if of == stream]

    def unmatched(self, streams: Mapping[Stream, RecordDispatch]) -> dict[str, str]:
        """Name the path that matched no record, by section, also for `events`; streams without records don't count."""
        without = streams[self._events].without_kinds
        named = {
            name: rule.unmatched(without if stream == self._events else None)
            for name, (stream, rule) in self._rules.items()
            if streams[stream].seen
        }
        return {name: sentence for name, sentence in {**named, "events": without}.items() if sentence}
