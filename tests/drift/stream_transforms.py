"""Changes to the stdout and stderr of recorded turns."""

import json
import re
from typing import Any, Literal

from msgspec.structs import replace

from tests.drift.records import Printed, printed
from tests.drift.transforms import edit_records, edit_stream, word
from turngate.contract.launch import Stream
from turngate.contract.values import Match
from turngate.turn.records import matches
from turngate_probes.harness.observations import Observations, Turn

# changes to bytes


@word
def put(
    turn: Turn,
    _seen: Observations,
    *,
    text: str = "",
    raw: str = "",
    at: int | Literal["start", "end"],
    stream: Stream = "stdout",
) -> Turn:
    """Insert a text, or `raw` bytes in hexadecimal, at the start, at the end, or before a line (counted from 0)."""
    added = bytes.fromhex(raw) if raw else text.encode()

    def edit(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        index = {"start": 0, "end": len(lines)}[at] if isinstance(at, str) else at
        return b"".join([*lines[:index], added, *lines[index:]])

    return edit_stream(turn, stream, edit)


@word
def substitute(
    turn: Turn, _seen: Observations, *, pattern: str, by: str = "", raw: str = "", stream: Stream = "stdout"
) -> Turn:
    """Replace every match of a multiline regular expression by a text, or by `raw` bytes in hexadecimal."""
    new = bytes.fromhex(raw) if raw else by.encode()
    return edit_stream(turn, stream, lambda data: re.sub(pattern.encode(), new, data, flags=re.MULTILINE))


@word
def cut_off(turn: Turn, _seen: Observations, *, count: int, stream: Stream = "stdout") -> Turn:
    """Drop the last `count` bytes."""
    return edit_stream(turn, stream, lambda data: data[:-count])


@word
def flood(turn: Turn, _seen: Observations, *, size: int, stream: Stream = "stdout") -> Turn:
    """Print a JSON object on one line of `size` bytes first."""
    return edit_stream(turn, stream, lambda data: b'{"type":"item.updated","x":"' + b"x" * size + b'"}\n' + data)


@word
def say_twice(turn: Turn, _seen: Observations, *, stream: Stream = "stdout") -> Turn:
    """Print the whole stream twice."""
    return edit_stream(turn, stream, lambda data: data + data)


@word
def swap_streams(turn: Turn, _seen: Observations) -> Turn:
    """Swap stdout and stderr."""
    return replace(turn, stdout=turn.stderr, stderr=turn.stdout)


@word
def spill(
    turn: Turn, _seen: Observations, *, pattern: str, at: int | Literal["start", "end"], stream: Stream = "stdout"
) -> Turn:
    """Print matching lines of the model's text as plain lines."""
    lines = [line for line in turn.scripted.split("\n") if re.search(pattern, line)]
    return put(turn, _seen, text="\n".join(lines) + "\n" if lines else "", at=at, stream=stream)


# changes to records


@word
def rename_field(
    turn: Turn, observed: Observations, *, field: str, to: str, match: Match | None = None, stream: Stream = "stdout"
) -> Turn:
    """Rename a field of the matching records."""

    def edit(stream_records: Printed) -> None:
        stream_records.records = [
            {to if key == field else key: value for key, value in record.items()} if matches(record, match) else record
            for record in stream_records.records
        ]

    return edit_records(turn, observed, stream, edit)


@word
def set_fields(
    turn: Turn, observed: Observations, *, fields: dict[str, Any], match: Match | None = None, stream: Stream = "stdout"
) -> Turn:
    """Set top-level fields of the matching records."""

    def edit(stream_records: Printed) -> None:
        stream_records.records = [
            {**record, **fields} if matches(record, match) else record for record in stream_records.records
        ]

    return edit_records(turn, observed, stream, edit)


@word
def drop_fields(
    turn: Turn, observed: Observations, *, fields: list[str], match: Match | None = None, stream: Stream = "stdout"
) -> Turn:
    """Remove top-level fields from the matching records."""

    def edit(stream_records: Printed) -> None:
        stream_records.records = [
            {key: value for key, value in record.items() if key not in fields} if matches(record, match) else record
            for record in stream_records.records
        ]

    return edit_records(turn, observed, stream, edit)


@word
def drop_records(turn: Turn, observed: Observations, *, match: Match, stream: Stream = "stdout") -> Turn:
    """Remove the matching records."""

    def edit(stream_records: Printed) -> None:
        stream_records.records = [record for record in stream_records.records if not matches(record, match)]

    return edit_records(turn, observed, stream, edit)


@word
def move_records(
    turn: Turn, observed: Observations, *, match: Match, to: Literal["end", "other"], stream: Stream = "stdout"
) -> Turn:
    """Print the matching records last, or on the other stream."""
    moved: list[dict[str, Any]] = []

    def edit(stream_records: Printed) -> None:
        moved.extend(record for record in stream_records.records if matches(record, match))
        stream_records.records = [record for record in stream_records.records if not matches(record, match)] + (
            moved if to == "end" else []
        )

    turn = edit_records(turn, observed, stream, edit)
    if to == "end":
        return turn
    lines = "".join(json.dumps(record) + "\n" for record in moved)
    return put(turn, observed, text=lines, at="end", stream="stderr" if stream == "stdout" else "stdout")


@word
def reverse_records(turn: Turn, observed: Observations, *, after: int, stream: Stream = "stdout") -> Turn:
    """Print the records after the first ones in reverse order."""

    def edit(stream_records: Printed) -> None:
        kept, later = stream_records.records[:after], stream_records.records[after:]
        stream_records.records = kept + later[::-1]

    return edit_records(turn, observed, stream, edit)


@word
def repeat_records(turn: Turn, observed: Observations, *, stream: Stream = "stdout") -> Turn:
    """Print each record twice in a row."""

    def edit(stream_records: Printed) -> None:
        stream_records.records = [record for record in stream_records.records for _ in range(2)]

    return edit_records(turn, observed, stream, edit)


@word
def pretty(turn: Turn, observed: Observations, *, stream: Stream = "stdout") -> Turn:
    """Print each record on several lines."""
    records = printed(observed.contract.stream(stream), turn.stdout if stream == "stdout" else turn.stderr).records
    return edit_stream(
        turn, stream, lambda _: "".join(json.dumps(record, indent=2) + "\n" for record in records).encode()
    )
