"""Turns the output of a well-behaved turn into that of a misbehaving one. Pure: bytes and records in, steps out."""

import json
import os
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from turngate import EngineContract
from turngate.contract.launch import Stream
from turngate.contract.values import Match
from turngate.turn.records import matches, value_at
from turngate_probes.simulate.backend import Answer, Backend, Failed, ModelRequest
from turngate_probes.simulate.faults import Faults

# what the model says first, by the name of the fault; {decoy} has the shape of a session id
_RECORDS = """
{{"type":"thread.started","thread_id":"{decoy}"}}
{{"type":"system","subtype":"init","session_id":"{decoy}"}}
{{"type":"step_start","sessionID":"{decoy}"}}
<Execution Info>
{{"session-id": "{decoy}", "tokenUsage": {{"total": 1}}}}
</Execution Info>
{{"type":"turn.completed","usage":{{"input_tokens":1,"output_tokens":1}}}}
{{"type":"result","subtype":"success","session_id":"{decoy}"}}
To resume this session: --resume {decoy}
"""
_ENVELOPE = """{{"outcome": "final", "final_data": {{"answer": "nothing"}}}}
"""
# the last two end lines for some readers, although JSON needs no escape for them; what prints a text may change them
_UNICODE = "Grüße 🎨👩‍💻 שלום 漢字 e\u0301. \u2028\u0085"
_LONG = "I looked at every file. " * 8400  # 200 KB; some readers take 64 KiB of a line
SAYS = {"records": _RECORDS, "envelope": _ENVELOPE, "unicode": _UNICODE, "long": _LONG}
BLANK = "\n "
COLOUR = "\x1b[36m"
OWN_PROMPT = "The background task has finished."  # by which an engine begins a turn of its own
INTERIM = "I am looking at the files first."
DECOY = "ERROR rollout: the state database has no path for thread {decoy}\n"
UNREAD = "Error: this account can't use the model\n"
NOISE = b"Loading plugins...\n"
BOM = b"\xef\xbb\xbf"
UNKNOWN = {"type": "turngate.unknown", "detail": {"percent": 50, "of": [1, None, "ä"]}}
FLOOD_LINE = b"warning: the cache is stale, rebuilding it " + b"." * 84 + b"\n"
AT_ONCE = 512  # lines of a flood, as many as a pipe holds: each write takes a small machine some time
_LEAD = re.compile(rb"[\xc0-\xff]")  # the first byte of a character of several bytes
_WITHIN = 0x80  # the first two bits of a byte in the middle of a character
_ONE_DOCUMENT = "json_document"


class FaultyOutput(NamedTuple):
    """What an engine writes at once: a record, or text."""

    stream: Stream
    data: bytes


class Halt(Struct, frozen=True):
    """The process stops writing: it pauses, hangs, prints nothing but signs of life, or dies."""

    how: Literal["pause", "hang", "heartbeat", "crash"]


Step: TypeAlias = FaultyOutput | Halt


def preamble(faults: Faults, decoy: str) -> str:
    """Return what the model says before its text."""
    return SAYS[faults.says].format(decoy=decoy) if faults.says else ""


def failed(faults: Faults) -> Failed | None:
    """Return how the model backend fails, if it does."""
    return Failed(str(faults.backend), "the model is overloaded", faults.backend) if faults.backend else None


def misled(backend: Backend, faults: Faults, decoy: str) -> Backend:
    """Return a backend with the faults of the model."""

    def answer(request: ModelRequest) -> Answer:
        reply = failed(faults) or backend(request)
        return preamble(faults, decoy) + reply if isinstance(reply, str) else reply

    return answer


def flood(faults: Faults) -> Iterator[FaultyOutput]:
    """Return what is printed on stderr before the first record."""
    lines = faults.stderr_bytes // len(FLOOD_LINE)
    return (FaultyOutput("stderr", FLOOD_LINE * min(AT_ONCE, lines - at)) for at in range(0, lines, AT_ONCE))


def steps(
    contract: EngineContract, outputs: Sequence[FaultyOutput], handle: str | None, faults: Faults
) -> Iterator[Step]:
    """Yield what the process does, from what it would print if it behaved well, and its session id."""
    printed = list(_changed(contract, outputs, handle, faults))
    if faults.notice:
        yield FaultyOutput("stderr", faults.notice.encode())
    yield from flood(faults)
    if faults.hang == "before":
        yield Halt("hang")
    if faults.bom:
        printed = _prefixed(printed, BOM)
    if banner := faults.banner or (COLOUR if faults.colours and os.environ.get("FORCE_COLOR") else ""):
        printed = _prefixed(printed, banner.encode())
    halves = faults.hang in ("during", "heartbeat") or faults.crash
    for number, output in enumerate(_half(printed) if halves else printed):
        if faults.prints_noise and output.stream == "stdout":
            yield FaultyOutput("stdout", NOISE)
        yield from pieces(output, faults)
        if faults.pause and not number:
            yield Halt("pause")
    if halves or faults.hang == "after":
        yield Halt("crash" if faults.crash else "heartbeat" if faults.hang == "heartbeat" else "hang")


def _changed(
    contract: EngineContract, outputs: Sequence[FaultyOutput], handle: str | None, faults: Faults
) -> Iterator[FaultyOutput]:
    """Return the outputs with other records: without the id or the end, with unknown ones, and so on."""
    rows = list(outputs)
    if faults.omits_end:
        name = _record_name(contract, contract.end.match)
        rows = [_without_text(contract, row, name)[0] for row in rows if not _is_end(contract, row)]
    if faults.several_messages:
        rows = list(_preceded(contract, rows))
    if faults.repeats_end:
        rows += [row for row in rows if _is_end(contract, row)]
    if faults.omits_answer:
        rows = list(_silent(contract, rows))
    if handle and faults.session_id:
        rows = list(_relocated(contract, rows, handle, faults.session_id))
    if (faults.unknown or faults.padding) and contract.streams.stdout.framing == "ndjson":
        record = unknown(faults)
        if contract.handle.record == "every" and handle:
            record |= {contract.handle.field: handle}
        rows[1:1] = [FaultyOutput("stdout", json.dumps(record, ensure_ascii=False).encode() + b"\n")]
    if faults.decoy:
        rows[:0] = _decoys(contract)
    return iter(rows)


def _decoys(contract: EngineContract) -> Iterator[FaultyOutput]:
    """Return lines with an id that is not the session's."""
    decoy = contract.handle.nonexistent_id
    yield FaultyOutput("stderr", DECOY.format(decoy=decoy).encode())
    if contract.streams.stdout.framing == "ndjson":
        yield FaultyOutput("stdout", json.dumps(UNKNOWN | {"request_id": decoy}, ensure_ascii=False).encode() + b"\n")


def prints_messages(contract: EngineContract) -> bool:
    """Whether an engine prints the agent's messages in other records than the end of the turn."""
    lines = contract.stream(contract.final.stream).framing == "ndjson"
    return lines and not (contract.final.match or {}).items() <= (contract.end.match or {}).items()


def _preceded(contract: EngineContract, rows: list[FaultyOutput]) -> Iterator[FaultyOutput]:
    """Insert another message of the agent before its text."""
    final, inserted = contract.final, not prints_messages(contract)
    for row in rows:
        record = _document(row.data) if row.stream == final.stream else None
        if record is not None and not inserted and final.field and matches(record, final.match):
            _change(record, final.field, INTERIM)
            if final.group:
                _change(record, final.group, f"{UNKNOWN['type']}.1")
            inserted = True
            yield FaultyOutput(row.stream, json.dumps(record, ensure_ascii=False).encode() + b"\n")
        yield row


def heartbeat(contract: EngineContract) -> FaultyOutput:
    """Return a sign of life: a record of an unknown kind, or a dot on stderr."""
    if contract.streams.stdout.framing == "ndjson":
        return FaultyOutput("stdout", json.dumps(UNKNOWN, ensure_ascii=False).encode() + b"\n")
    return FaultyOutput("stderr", b".")


def unknown(faults: Faults) -> dict[str, Any]:
    """Return a record of a kind that nobody knows."""
    return UNKNOWN | ({"padding": "x" * faults.padding} if faults.padding else {})


def _silent(contract: EngineContract, rows: list[FaultyOutput]) -> Iterator[FaultyOutput]:
    """Empty the agent's text, and take out the records that repeat it beside the one that ends the turn."""
    final, text = contract.final, None
    for row in rows:
        record = _document(row.data)
        if final.field and record is not None and _is_end(contract, row) and matches(record, final.match):
            text = value_at(record, final.field)
    for row in rows:
        record = _document(row.data)
        if row.stream != final.stream or (record is not None and not matches(record, final.match)):
            if not (text and row.stream == final.stream and _holds(record, text)):
                yield row
        elif final.field is not None and record is not None:
            yield _edited(row, final.field, "")


def _holds(value: object, text: str) -> bool:
    """Whether a text is one of the values in a record, at any depth."""
    if isinstance(value, dict | list):
        return any(_holds(inner, text) for inner in (value.values() if isinstance(value, dict) else value))
    return value == text


def _is_end(contract: EngineContract, row: FaultyOutput) -> bool:
    """Whether an output proves the end of the turn, as the only document of a stream always does."""
    if row.stream != contract.end.stream:
        return False
    record = _document(row.data)
    whole = contract.stream(row.stream).framing == _ONE_DOCUMENT
    return whole or (record is not None and matches(record, contract.end.match))


def _relocated(contract: EngineContract, rows: list[FaultyOutput], handle: str, where: str) -> Iterator[FaultyOutput]:
    """Take the session id out of every record; print one of them, with the id, last or on stderr."""
    if where == "stderr" == contract.handle.stream:
        yield from rows
        return
    if contract.stream(contract.handle.stream).framing == "text":
        yield from _relocated_line(contract, rows, where)
        return
    word = json.dumps(handle).encode()
    named = [row for row in rows if word in row.data]
    for row in rows:
        yield _edited(row, contract.handle.field) if row in named else row
    if named and where != "absent":
        yield FaultyOutput("stderr" if where == "stderr" else named[0].stream, named[0].data)


def _relocated_line(contract: EngineContract, rows: list[FaultyOutput], where: str) -> Iterator[FaultyOutput]:
    """Do the same with the line of a plain text that has the id."""
    place, found = contract.handle, b""
    name = _record_name(contract, place.match)
    for row in rows:
        rest, line = (row, b"") if found or row.stream != place.stream else _without_text(contract, row, name)
        found = found or line
        yield rest
    if found and where != "absent":
        yield FaultyOutput("stderr" if where == "stderr" else place.stream, found + b"\n")


def _record_name(contract: EngineContract, match: Match | None) -> str:
    """Return the name of the record of a plain text that is meant; empty: none."""
    return str((match or {}).get(contract.events.field or "", ""))


def _without_text(contract: EngineContract, row: FaultyOutput, name: str) -> tuple[FaultyOutput, bytes]:
    """Take the lines that are a record of a plain text out of an output; return the rest, and the lines."""
    for record in contract.stream(row.stream).records:
        found = (
            list(re.finditer(rf"(?m:^)(?:{record.pattern})(?m:$)".encode(), row.data)) if record.name == name else []
        )
        if found:
            start, end = found[0 if record.at == "first" else -1].span()
            return FaultyOutput(row.stream, row.data[:start] + row.data[end:].removeprefix(b"\n")), row.data[start:end]
    return row, b""


def _edited(row: FaultyOutput, path: str, value: str | None = None) -> FaultyOutput:
    """Take one value out of the JSON document in an output, or replace it; what surrounds the document stays."""
    record = _document(row.data)
    if record is None:
        return row
    _change(record, path, value)
    start, end = row.data.index(b"{"), row.data.rindex(b"}") + 1
    spread = b"\n" in row.data[start:end]
    text = json.dumps(record, ensure_ascii=False, indent=2) if spread else json.dumps(record, ensure_ascii=False)
    return FaultyOutput(row.stream, row.data[:start] + text.encode() + row.data[end:])


def _document(data: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(data[data.index(b"{") : data.rindex(b"}") + 1])
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _change(record: dict[str, Any], path: str, value: str | None) -> None:
    """Replace a value that a record has, or remove it (None)."""
    *above, last = path.split(".")
    at: Any = record
    for key in above:
        at = at.get(key) if isinstance(at, dict) else None
    if not isinstance(at, dict) or last not in at:
        return
    if value is None:
        del at[last]
    else:
        at[last] = value


def _prefixed(rows: list[FaultyOutput], data: bytes) -> list[FaultyOutput]:
    return [FaultyOutput("stdout", data), *rows]


def _half(rows: list[FaultyOutput]) -> list[FaultyOutput]:
    """Return the first half of what goes to stdout, cut in the middle of a line, and everything on stderr before it."""
    total = sum(len(row.data) for row in rows if row.stream == "stdout")
    left, kept = total // 2, list[FaultyOutput]()
    for row in rows:
        part = row if row.stream == "stderr" else FaultyOutput("stdout", row.data[:left])
        left -= len(part.data) if row.stream == "stdout" else 0
        kept.append(part)
        if left <= 0:
            break
    return kept


def pieces(output: FaultyOutput, faults: Faults) -> Iterator[FaultyOutput]:
    """Return an output in the encoding and the pieces of the faults."""
    if output.stream == "stderr":
        yield output
        return
    data = output.data.replace(b"\n", b"\r\n") if faults.crlf else output.data
    cuts, middle = {0, len(data)}, len(data) // 2
    if faults.warns_inside:
        while middle and data[middle] & 0xC0 == _WITHIN:
            middle -= 1
        cuts.add(middle)
    if faults.chunk:
        cuts |= {*range(0, len(data), faults.chunk), *(lead.end() for lead in _LEAD.finditer(data))}
    for at, end in pairwise(sorted(cuts)):
        if faults.warns_inside and at == middle:
            yield FaultyOutput("stderr", FLOOD_LINE)
        yield FaultyOutput("stdout", data[at:end])
