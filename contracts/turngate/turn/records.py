"""Dispatches the records that an engine printed to observers, and counts them by kind.

Rules name values in records by dotted paths. The path of a rule that matched no record is kept, so that a mistake in a
contract can be told from a silent engine.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Any

from msgspec import Struct

from turngate.contract.engine_contract import EngineContract
from turngate.contract.launch import Stream
from turngate.contract.values import Match

Record = dict[str, Any]
_KINDS = {list: "a list", dict: "an object", str: "text", bool: "a boolean", int: "a number", float: "a number"}
MAX_KINDS = 1000
MAX_KIND = 100
NO_VALUE: object = object()
RecordCallback = Callable[[Record, int], bool | None]


def value_at(record: Any, path: str) -> Any:
    """Follow a dotted path through nested objects and lists, as in `content.0.text`; None where a step is missing."""
    return getter(path)(record)


@cache
def getter(path: str) -> Callable[[Any], Any]:
    """Return the function that follows a dotted path, as `value_at` does, in a record."""
    steps = path.split(".")

    def get(record: Any) -> Any:
        for step in steps:
            record = record.get(step) if record.__class__ is dict else step_into(record, step)
        return record

    first, *more = steps
    if more[1:] or any(map(is_index, steps)):
        return get
    second = more[0] if more else ""

    # these run for most lines of long transcripts, whose objects nearly always have the keys
    def get_first(record: Any) -> Any:
        try:
            return record[first]
        except (KeyError, TypeError):
            return None

    def get_second(record: Any) -> Any:
        try:
            return record[first][second]
        except (KeyError, TypeError):
            return None

    return get_second if more else get_first


def both(one: str, other: str, call: Callable[[Any, Any], None]) -> Callable[[Record, int], None]:
    """Return an observer of records that calls a function with the values at two paths."""
    get_one, get_other = getter(one), getter(other)
    (shared, _, key), (before, _, other_key) = one.rpartition("."), other.rpartition(".")

    def observe(record: Record, _index: int) -> None:
        call(get_one(record), get_other(record))

    def observe_inner(record: Record, _index: int) -> None:
        try:
            inner = record[shared]
            value, other_value = inner[key], inner[other_key]
        except (KeyError, TypeError):
            value, other_value = get_one(record), get_other(record)
        call(value, other_value)

    return observe_inner if shared == before and shared and "." not in shared else observe


def step_into(value: Any, step: str) -> Any:
    """Return the value under a key of an object, or at an index of a list: 0 is the first, -1 the last; else None."""
    if isinstance(value, dict):
        return value.get(step)
    if isinstance(value, list) and is_index(step) and -len(value) <= int(step) < len(value):
        return value[int(step)]
    return None


def is_index(step: str) -> bool:
    """Whether a step of a path is an index of a list; negative ones count from its end."""
    return step.removeprefix("-").isdecimal()


def matches(record: Record, match: Match | None) -> bool:
    """Return whether the record has every value that `match` asks for (None matches every record)."""
    return match is None or all(value_at(record, path) == value for path, value in match.items())


def unmatched(path: str, records: int, where: str = "", *, obstacle: str, text: bool = False) -> str:
    """Say that a path matched nothing, or no text, in so many records, and what is there instead."""
    if records == 1:
        problem = f"`{path}` matched {'no text in' if text else 'nothing in'} the only record{where}"
    else:
        problem = f"`{path}` matched {'no text in' if text else 'none of'} {records} records{where}"
    return problem + (f"; {obstacle}" if obstacle else "")


def obstacle_at(record: Record, path: str) -> tuple[int, str]:
    """Return how many steps of a path lead to something, and what keeps it from a text; empty: it has no first step."""
    found: list[str] = []
    value: object = record
    taken: list[str] = []
    for step in path.split("."):
        inner = step_into(value, step)
        if isinstance(value, list):
            found.append(f"`{'.'.join(taken)}` is a list")
        if inner is None:
            found += _missing(value, step, taken)
            break
        value = inner
        taken.append(step)
    else:
        found.append(f"`{path}` is {_KINDS.get(type(value), 'null')}")
    return len(taken), ", and ".join(found)


def _missing(value: object, step: str, taken: list[str]) -> list[str]:
    at = ".".join(taken)
    if isinstance(value, dict):
        if step in value:
            return [f"`{'.'.join([*taken, step])}` is null"]
        return [f"`{at}` has no `{step}`"] if at else []
    if isinstance(value, list):
        return [f"it has no item {step}" if is_index(step) else f"`{step}` isn't an index such as `{at}.0`"]
    return [f"`{at}` is {_KINDS.get(type(value), 'null')}"]


def excerpt(value: object) -> str:
    """Render a value as text; a value nested too deeply to render becomes an ellipsis."""
    try:
        return str(value)
    except RecursionError:
        return "…"


class RecordHandler(Struct, frozen=True):
    """A function to call with each matching record and its index in the stream, until it returns True."""

    match: Match | None
    call: RecordCallback


class Repeated:
    """A value that records repeat under a key: `call` is called with the records that have another one."""

    __slots__ = ("call", "key", "value")

    def __init__(self, key: str, call: RecordCallback) -> None:
        """Expect no value, so that every record is passed on, until `value` is set."""
        self.key, self.call, self.value = key, call, NO_VALUE


class _Kind:
    """A kind of records: what is still to be called with each, and how many there were."""

    __slots__ = ("calls", "count")

    def __init__(self, calls: list[RecordCallback]) -> None:
        self.calls, self.count = calls, 0


class RecordDispatch:
    """Dispatches the records of a stream; `census` counts them by the value of `field`, or else by their keys."""

    def __init__(
        self, looks: Sequence[RecordHandler], field: str | None, *, counted: bool, repeated: Repeated | None = None
    ) -> None:
        self.count = 0
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
        return unmatched(self._field, self.count, obstacle=self._obstacle)

    def kinds(self, record: Record) -> list[str]:
        """Return the names under which the census counts a record: its kind, or its keys."""
        names = record if self._field is None else (excerpt(value_at(record, self._field)),)
        return [self._count(str(name), 0) for name in names]

    def see(self, records: Iterable[Record]) -> None:
        """Take the next records of the stream."""
        if self._field is None or not self._counted:
            self._see_without_kind(records)
            return
        by_kind, field, repeated, index = self._by_kind, self._field, self._repeated, self.count - 1
        key = repeated.key if repeated else ""
        # this runs for every line of long transcripts, which nearly always has a known kind
        for index, record in enumerate(records, self.count):
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
        self.count = index + 1

    def _note_kind(self, record: Record, field: str) -> None:
        if value_at(record, field) is not None:
            self._has_kinds = True
        elif not self._obstacle:
            _, self._obstacle = obstacle_at(record, field)

    def _meet(self, record: Record, field: str) -> _Kind:
        """Return the kind of a record; excess or overlong kinds are counted, but not cached."""
        name = record.get(field)
        if name.__class__ is not str:
            name = excerpt(value_at(record, field))
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

    def _for_kind(self, look: RecordHandler, kind: str) -> RecordCallback | None:
        match = dict(look.match or {})
        if self._field in match and match.pop(self._field) != kind:
            return None
        return _guarded(look.call, match)

    def _see_without_kind(self, records: Iterable[Record]) -> None:
        calls, index = [_guarded(look.call, look.match or {}) for look in self._looks], self.count - 1
        if self._repeated:
            calls.insert(0, self._repeated.call)
        for index, record in enumerate(records, self.count):
            if self._counted:
                for key in record:
                    self._count(str(key), 1)
            for call in calls:
                call(record, index)
        self.count = index + 1


def _guarded(call: RecordCallback, match: Match) -> RecordCallback:
    """Return the function that calls another one with the records that have every value of `match`."""
    for path, value in reversed(list(match.items())):
        call = _where(getter(path), value, call)
    return call


def _where(get: Callable[[Record], object], value: object, call: RecordCallback) -> RecordCallback:
    return lambda record, index: call(record, index) if get(record) == value else None


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
        self._is_present, self._applied = False, False

    def observer(self) -> RecordCallback:
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
        self._is_present = True
        for condition in self._conditions:
            if not (self._applied or condition.accepts(record)):
                return False
        self._applied = True
        return True

    def unmatched(self, without_kinds: str | None) -> str | None:
        """Name the path that kept the rule from applying; None if it applied, or if only values differ.

        `without_kinds` names the path `kind` if no record has it.
        """
        if not self._is_present:
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
            if streams[stream].count
        }
        return {name: sentence for name, sentence in {**named, "events": without}.items() if sentence}
