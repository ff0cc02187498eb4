"""What the output of an unknown CLI shows: framing, kinds of records, and the places of values. Pure."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from turngate.contract.engine_contract import Framed
from turngate.turn.framing import framer
from turngate.turn.records import Record, value_at

Framing = Literal["ndjson", "json_document", "text"]
LONGEST_KIND = 100
_KINDS = ("type", "event", "kind", "method", "role")
_ID = re.compile(r"(?=.*[0-9])[A-Za-z0-9][A-Za-z0-9_.:-]{5,99}")
_NO_ID = re.compile(r"\d{4}-\d\d-\d\dT.*|\d+(\.\d+)*")  # times and numbers


class Place(Struct, frozen=True):
    """Where a value is: the record ("first", "last", "every", "only"), what tells that record apart, and the path."""

    path: str
    match: tuple[tuple[str, str], ...] = ()
    record: str = ""


class OutputReading(Struct, frozen=True):
    """The records of a turn's standard output, and the other lines."""

    framing: Framing
    records: tuple[Record, ...]
    noise: tuple[str, ...] = ()


def read(stdout: bytes) -> OutputReading:
    """Read standard output as lines of JSON, one JSON document, or text."""
    lines = framer(Framed("ndjson"))
    records = (*lines.feed(stdout), *lines.finish())
    noise = tuple(line for line in stdout.decode("utf-8", "replace").splitlines() if line and not _is_json(line))
    if records and len(noise) <= len(records):
        return OutputReading("ndjson", records, noise)
    whole = framer(Framed("json_document"))
    documents = (*whole.feed(stdout), *whole.finish())
    return OutputReading("json_document", documents[:1]) if documents else OutputReading("text", ())


def kind_fields(outputs: Sequence[OutputReading]) -> list[str]:
    """Return the keys that may hold the kind of a record: each record has a short text there."""
    records = [record for output in outputs for record in output.records]
    return [name for name in _KINDS if records and all(_is_kind(record.get(name)) for record in records)]


def _is_kind(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= LONGEST_KIND


def kinds(outputs: Sequence[OutputReading], field: str | None) -> list[str]:
    """Return the values of a field in order of appearance; without a field, the keys of the records."""
    records = [record for output in outputs for record in output.records]
    return list(dict.fromkeys(name for record in records for name in ([str(record[field])] if field else record)))


def id_values(output: OutputReading) -> list[str]:
    """Return the values that look like ids, those in most records first."""
    observed = Counter[str]()
    for record in output.records:
        observed.update({value for _, value in leaves(record) if _ID.fullmatch(value) and not _NO_ID.fullmatch(value)})
    order = list(dict.fromkeys(value for record in output.records for _, value in leaves(record)))
    return sorted(observed, key=lambda value: (-observed[value], order.index(value)))


def id_places(turns: Sequence[tuple[OutputReading, str]], field: str | None) -> list[Place]:
    """Return the places that have the id in each of these turns.

    A path that has it only in records in the middle is listed with what tells the first of them apart.
    """
    found = [[_place(output, path, value, field) for path in _paths(output, value)] for output, value in turns]
    return [place for place in found[0] if all(place in others for others in found[1:])] if found else []


def _paths(output: OutputReading, value: str) -> list[str]:
    return list(dict.fromkeys(path for record in output.records for path, leaf in leaves(record) if leaf == value))


def _place(output: OutputReading, path: str, value: str, field: str | None) -> Place:
    has = [value_at(record, path) == value for record in output.records]
    for record, holds in (("only", len(has) == 1), ("every", all(has)), ("first", has[0]), ("last", has[-1])):
        if holds:
            return Place(path, record=record)
    return Place(path, told_apart(output, output.records[has.index(True)], field), "first")


def text_places(outputs: Sequence[OutputReading], text: str, field: str | None) -> list[Place]:
    """Return the places that have this text as a whole in each output."""
    found = [
        [
            Place(path, told_apart(output, record, field))
            for record in output.records
            for path, value in leaves(record)
            if value.strip() == text
        ]
        for output in outputs
    ]
    return [place for place in dict.fromkeys(found[0]) if all(place in places for places in found)] if found else []


def end(outputs: Sequence[OutputReading], field: str | None) -> Place | None:
    """Return what tells the last record of each output from all of its others; None if nothing does."""
    found = set[Place | None]()
    for output in outputs:
        match = told_apart(output, output.records[-1], field) if output.records else ()
        alike = [record for record in output.records if all(value_at(record, path) == v for path, v in match)]
        found.add(Place("", match) if len(alike) == 1 else None)
    return found.pop() if len(found) == 1 else None


def told_apart(output: OutputReading, record: Record, field: str | None) -> tuple[tuple[str, str], ...]:
    """Return a record's kind, and the kind of what it contains if other records have the same."""
    if not field:
        return ()
    kind = record[field]
    match = [(field, str(kind))]
    others = [other for other in output.records if other is not record and other.get(field) == kind]
    for path, value in leaves(record) if others else ():
        is_kind = path.rpartition(".")[2] in (*_KINDS, "subtype") and path != field
        if is_kind and any(value_at(other, path) != value for other in others):
            match.append((path, value))
            break
    return tuple(match)


def leaves(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Return the path and value of every text in a record that a contract can name."""
    items: Iterable[tuple[object, object]] = ()
    if isinstance(value, dict):
        items = ((key, inner) for key, inner in value.items() if key and "." not in str(key))
    elif isinstance(value, list):
        items = enumerate(value)
    elif isinstance(value, str):
        yield path, value
    for key, inner in items:
        yield from leaves(inner, f"{path}.{key}" if path else str(key))


def _is_json(line: str) -> bool:
    lines = framer(Framed("ndjson"))
    return bool([*lines.feed(line.encode()), *lines.finish()])
