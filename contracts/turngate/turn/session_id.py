"""Finds the session id by stream and position, never by searching text."""

import re
from enum import StrEnum
from functools import partial

from msgspec import Struct

from turngate.contract.engine_contract import HandlePlace
from turngate.contract.launch import Stream
from turngate.contract.session_ids import MAX_BYTES, unsafe
from turngate.turn.records import NO_VALUE, Record, Repeated, excerpt, getter, matches

MAX_OCCURRENCES = 50
_WHICH = {"last": "the last record", "every": "each record", "only": "the only record"}


class HandleProblem(StrEnum):
    """What is wrong with an id: there is none, its value can't be passed on, or it is in the wrong place."""

    MISSING = "missing"
    UNSAFE = "unsafe"
    PLACE = "place"


class Occurrence(Struct, frozen=True):
    """A value of the id's field: the stream, the record's index in it, and the value."""

    stream: Stream
    index: int
    value: object


class HandleReading(Struct, frozen=True):
    """The id (None if anything is wrong), its problem, and where the field was found.

    `unfamiliar` says how the id differs from the shape that the contract describes (empty: it doesn't). Ids are opaque,
    so that is no problem. `displaced` says how the id's record is not the first or the only one, as it is without a
    user's hooks and display settings (empty: it is). That is no problem either if the record matches.
    """

    value: str | None
    problem: HandleProblem | None
    detail: str
    occurrences: tuple[Occurrence, ...]
    unfamiliar: str = ""
    displaced: str = ""


class HandleFinder:
    """Watches the records of both streams for the field with the id."""

    def __init__(self, place: HandlePlace) -> None:
        """Look where the contract says, and note the field anywhere else."""
        self._place = place
        self._occurrences: list[Occurrence] = []
        self._lacking = 0
        # how many records lacked the id before the first that has it
        self._lacking_first: int | None = None
        self._latest = -1
        self._get = getter(place.field)
        # the latest occurrence: equal ones on the same stream are listed once
        self._stream: Stream | None = None
        self._value: object = None
        self._repeated = Repeated(place.field, partial(self.see, place.stream))

    @property
    def repeated(self) -> Repeated | None:
        """What every record of the expected stream repeats, instead of `see`; None if that is no single key of all."""
        place = self._place
        return self._repeated if place.record == "every" and "." not in place.field else None

    def see(self, stream: Stream, record: Record, index: int) -> None:
        """Take a record that the place's `match` accepts (any record if all must contain the id), with its index."""
        place, value = self._place, self._get(record)
        if value is not None and stream == place.stream:
            self._latest = index
        if value == self._value and stream == self._stream:
            return
        if value is None or (place.record == "every" and not matches(record, place.match)):
            self._lacking += stream == place.stream
        elif len(self._occurrences) < MAX_OCCURRENCES:
            kept = _bounded(value)
            if kept != self._value or stream != self._stream:
                self._stream, self._value = stream, kept
                self._repeated.value = kept if stream == place.stream else NO_VALUE
                if stream == place.stream and self._lacking_first is None:
                    self._lacking_first = self._lacking
                self._occurrences.append(Occurrence(stream, index, kept))

    def reading(self, records: int, unmatched: str | None = None, end: int | None = None) -> HandleReading:
        """Return the reading after the streams have ended; `records` counts those of the expected stream.

        `unmatched` names a path of the place that no record has. `end` is the index of the first record of that stream
        that proves the end of the turn.
        """
        # the interleaving of the two streams carries no information
        found = tuple(sorted(self._occurrences, key=lambda occurrence: occurrence.stream != self._place.stream))
        problem, detail = self._check(found, records, unmatched, end)
        value = found[0].value if found and problem is None else None
        if not isinstance(value, str):
            return HandleReading(None, problem, detail, found)
        displaced = self._displaced(found[0], records)
        return HandleReading(value, problem, detail, found, unfamiliar(self._place, value), displaced)

    def _check(
        self, found: tuple[Occurrence, ...], records: int, unmatched: str | None, end: int | None
    ) -> tuple[HandleProblem | None, str]:
        place = self._place
        if not found:
            return HandleProblem.MISSING, unmatched or f"no record of {place.stream} has {self._wanted()}"
        if misplaced := self._misplaced(found, records, end):
            return HandleProblem.PLACE, misplaced
        if why := unsafe(found[0].value):
            return HandleProblem.UNSAFE, f"{place.field} {why}"
        is_numbered = place.record == "first" or (place.record == "only" and records > 1)
        which = f"record {found[0].index + 1}" if is_numbered else _WHICH[place.record]
        return None, f"{place.field} of {which} of {place.stream}"

    def _misplaced(self, found: tuple[Occurrence, ...], records: int, end: int | None) -> str | None:
        place, first, latest = self._place, found[0], self._latest
        if first.stream != place.stream:
            return f"{place.field} is on {first.stream}, not on {place.stream}"
        if place.record in ("first", "only") and place.match and self._lacking_first:
            return f"{place.field} is in record {first.index + 1}, not in the first that matches"
        if not place.match and (displaced := self._displaced(first, records)):
            return displaced
        if place.record == "first" and end is not None and first.index > end:
            return f"{place.field} is in record {first.index + 1}, after the end of the turn"
        if place.record == "last" and latest + 1 != records:
            return f"{place.field} is in record {latest + 1} of {records}, not in the last"
        if place.record == "every" and self._lacking:
            return f"{self._lacking} records lack {place.field}"
        others = [s.value for s in found if s.value != first.value]
        return f"a second, different id: {others[0]!r} after {first.value!r}" if others else None

    def _displaced(self, first: Occurrence, records: int) -> str:
        place = self._place
        if place.record in ("first", "only") and first.index:
            return f"{place.field} is in record {first.index + 1}, not in the first"
        return f"{place.stream} has {records} records, not one" if place.record == "only" and records > 1 else ""

    def _wanted(self) -> str:
        match = ", ".join(f"{path} = {value!r}" for path, value in (self._place.match or {}).items())
        return f"{self._place.field}" + (f" where {match}" if match else "")


def unfamiliar(place: HandlePlace, value: str) -> str:
    """Return how a session id differs from the shape that a contract describes; empty if it doesn't."""
    return "" if re.fullmatch(place.shape, value) else f"{value!r} doesn't match {place.shape}"


def _bounded(value: object) -> object:
    """Return a value, or a prefix of it that is still too long for an id."""
    if isinstance(value, list | dict):
        return [excerpt(value)[:MAX_BYTES]]
    return value[:MAX_BYTES] + "…" if isinstance(value, str) and len(value) > MAX_BYTES else value
