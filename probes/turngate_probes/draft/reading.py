"""What the output of an unknown CLI shows: framing, events, session id, end and final text. Pure."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from turngate.contract.structs import Framed
from turngate.turn.framing import framer
from turngate.turn.records import Record, value_at

Framing = Literal["ndjson", "json_document", "text"]
UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
SHORTEST_ID, LONGEST_ID = 8, 100
_KINDS = ("type", "event", "kind", "method", "role")
_NAMED = re.compile(r"session|thread|conversation|chat", re.IGNORECASE)
_ID = re.compile(rf"[A-Za-z0-9_.:-]{{{SHORTEST_ID},{LONGEST_ID}}}")
_TEMPLATE_MARK = re.compile(r"^\d{4}-\d\d-\d\dT|^\d+(\.\d+)*$")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A value that may be the session id: its path, and which records have it ("first", "last", "every", "only").

    `match` selects the record if its place does not.
    """

    path: str
    value: str
    record: str
    match: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Spot:
    """A record and the path of a value in it; `match` is what tells the record from the others."""

    match: tuple[tuple[str, str], ...]
    path: str = ""


@dataclass(frozen=True, slots=True)
class OutputReading:
    """The records of a turn's standard output. `kind` is the path of a record's kind, empty if there is none."""

    framing: Framing
    records: tuple[Record, ...]
    noise: tuple[str, ...]
    kind: str

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of records in order of appearance; without a kind, the keys of the records."""
        if self.kind:
            return tuple(dict.fromkeys(str(value_at(record, self.kind)) for record in self.records))
        return tuple(dict.fromkeys(key for record in self.records for key in record))


def read(stdout: bytes) -> OutputReading:
    """Read standard output as lines of JSON, one JSON document, or text."""
    lines = framer(Framed("ndjson"))
    records = (*lines.feed(stdout), *lines.finish())
    noise = tuple(line for line in stdout.decode("utf-8", "replace").splitlines() if line and not _is_json(line))
    if records and len(noise) <= len(records):
        return OutputReading("ndjson", records, noise, _kind(records))
    whole = framer(Framed("json_document"))
    documents = (*whole.feed(stdout), *whole.finish())
    if documents:
        return OutputReading("json_document", documents[:1], (), "")
    return OutputReading("text", (), (), "")


def candidates(output: OutputReading, known: Iterable[str]) -> list[Candidate]:
    """Return the values that may be the session id, the likeliest first. `known` are other values, such as prompts."""
    rows, excluded = dict[tuple[str, str], list[int]](), set(known)
    for index, record in enumerate(output.records):
        for path, value in leaves(record):
            looks = isinstance(value, str) and _ID.fullmatch(value) and not _TEMPLATE_MARK.search(value)
            if looks and value not in excluded and path != output.kind and re.search(r"\d", str(value)):
                rows.setdefault((path, str(value)), []).append(index)
    rated = sorted(rows, key=lambda row: (_rate(*row), rows[row][0], len(row[0])))
    return [_candidate(output, path, value, rows[path, value]) for path, value in rated]


def final_text(output: OutputReading, reply: str) -> Spot | None:
    """Return where the model's reply is as a whole value; the last place counts."""
    for record in reversed(output.records):
        for path, value in leaves(record):
            if isinstance(value, str) and value.strip() == reply:
                return Spot(_told_apart(output, record), path)
    return None


def end(output: OutputReading) -> Spot | None:
    """Return what tells the last record from all others; None if nothing does."""
    if not output.records:
        return None
    match = _told_apart(output, output.records[-1])
    alike = [record for record in output.records if all(value_at(record, path) == v for path, v in match)]
    return Spot(match) if output.framing == "json_document" or (match and len(alike) == 1) else None


def shape(value: str) -> tuple[str, str]:
    """Return a pattern for ids like this one, and an id of that shape that belongs to no session."""
    if re.fullmatch(UUID, value):
        return UUID, "00000000-0000-7000-8000-000000000000"
    prefix = match[0] if (match := re.match(r"[a-z]+[_-]", value)) else ""
    rest = value[len(prefix) :]
    for letters in ("0-9a-f", "0-9a-z", "A-Za-z0-9", "A-Za-z0-9_.:-"):
        if re.fullmatch(f"[{letters}]+", rest):
            return f"{re.escape(prefix)}[{letters}]{{{len(rest)}}}", prefix + "0" * len(rest)
    return re.escape(value), value


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Return the path and value of everything in a record that is neither an object nor a list."""
    items: Iterable[tuple[object, object]] = ()
    if isinstance(value, dict):
        items = ((key, inner) for key, inner in value.items() if "." not in str(key))
    elif isinstance(value, list):
        items = enumerate(value)
    else:
        yield path, value
    for key, inner in items:
        yield from leaves(inner, f"{path}.{key}" if path else str(key))


def _kind(records: Sequence[Record]) -> str:
    for name in _KINDS:
        if all(isinstance(record.get(name), str) for record in records):
            return name
    return ""


def _rate(path: str, value: str) -> int:
    """Rate a candidate: 0 is the likeliest."""
    key = path.rpartition(".")[2]
    named, is_id = bool(_NAMED.search(path)), key.lower().endswith("id")
    return 4 - 2 * named - is_id - bool(re.fullmatch(UUID, value))


def _candidate(output: OutputReading, path: str, value: str, indexes: list[int]) -> Candidate:
    count = len(output.records)
    if count == 1:
        return Candidate(path, value, "only")
    if len(indexes) == count:
        return Candidate(path, value, "every")
    if indexes[0] == 0:
        return Candidate(path, value, "first")
    if indexes[-1] == count - 1:
        return Candidate(path, value, "last")
    return Candidate(path, value, "first", _told_apart(output, output.records[indexes[0]]))


def _told_apart(output: OutputReading, record: Record) -> tuple[tuple[str, str], ...]:
    """Return a record's kind, and the kind of what it contains if other records have the same."""
    if not output.kind:
        return ()
    kind = value_at(record, output.kind)
    match = [(output.kind, str(kind))]
    others = [other for other in output.records if other is not record and value_at(other, output.kind) == kind]
    for path, value in leaves(record) if others else ():
        is_kind = path.rpartition(".")[2] in _KINDS and path != output.kind and isinstance(value, str)
        if is_kind and any(value_at(other, path) != value for other in others):
            match.append((path, str(value)))
            break
    return tuple(match)


def _is_json(line: str) -> bool:
    lines = framer(Framed("ndjson"))
    return bool([*lines.feed(line.encode()), *lines.finish()])
