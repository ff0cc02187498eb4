"""The probe's journal: one line of JSON per event, written to disk immediately.

Every report is rendered from it. Observations become events, shortened and without paths of this machine. Turns and
help pages include what can be compared between releases: kinds of records, key paths, option names.
"""

import errno
import fcntl
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

import msgspec

from turngate import Ended, EngineContract, MachineError, UsageError
from turngate.contract.launch import HelpPage
from turngate.contract.verdict import OutputExcerpt, RequestExcerpt, decode_hook
from turngate.decoding import decode
from turngate.files import locked
from turngate.formats import NewerFormatError, version_of
from turngate.history import Kind
from turngate.sanitize import bounded, redact
from turngate.turn.framing import framer
from turngate.turn.records import Record, value_at
from turngate_probes.harness.acp_requests import STEP as ACP
from turngate_probes.harness.observations import CommandOutput, Observation, ServerCall, Turn
from turngate_probes.harness.session_file import STEP as SESSION
from turngate_probes.harness.subcommands import CASE as LISTINGS
from turngate_probes.journal import listings
from turngate_probes.journal.acp_answers import answers
from turngate_probes.journal.events import SCHEMA, CallEvent, Event, ObservedEvent, PageEvent, ReleaseFailed, TurnEvent
from turngate_probes.journal.tool_access import reported, searched
from turngate_probes.stub_model import Exchange

MAX_EXCERPT = 4000
MAX_ARGUMENT = 300
MAX_REQUESTS = 12
MOST = 400
MOST_KEYS = 4000
LONGEST = 160
DEEPEST = 6
_LONG = re.compile(r"(?<![\w-])--[A-Za-z][\w-]*")
# a short option counts at the start of a line, or next to a long one
_SHORT = re.compile(
    r"^\s*(-[A-Za-z])(?=[\s,=]|$)|(?<![\w-])(-[A-Za-z])(?=,\s*--)|(?<=,\s)(-[A-Za-z])(?=[\s,]|$)", re.MULTILINE
)

# an option and its description, up to the next option or an empty line; an option that begins a line of a
# description is indented further
_BLOCK = re.compile(
    r"^[ \t]{0,8}-{1,2}[A-Za-z][^\n]*(?:\n(?![ \t]{0,8}-{1,2}[A-Za-z])(?![ \t]*$)[^\n]*)*", re.MULTILINE
)
_VALUE = re.compile(
    r"(?<![\w-])--[A-Za-z][\w-]*[ =](<[^>\n]+>(?:\.\.\.)?|\[[^\]\n]+\](?:\.\.\.)?|\{[^}\n]+\}|[A-Z][A-Z0-9_|-]+\b)"
)
_CHOICES = re.compile(
    r"\[(?:possible values|choices): [^\]]+\]|\(choices: [^)]+\)|\[(?:string|boolean|number|array|count)\]"
)
_TYPES: Mapping[type, str] = {
    bool: "boolean",
    dict: "object",
    list: "array",
    str: "string",
    type(None): "null",
}
LONGEST_TEXT = 8000


def seen_event(
    release: str, item: Observation, places: Mapping[str, str], contract: EngineContract | None = None
) -> ObservedEvent:
    """Return the event of an observation; with a contract also what can be compared between releases."""
    match item:
        case Turn():
            return _turn(release, item, places, contract)
        case CommandOutput():
            return PageEvent(
                **_command(release, item, places),
                names=names(item, contract) if contract else None,
                options=usages(item, contract) if contract else None,
                listed=_listed(item, contract) if contract else None,
            )
        case ServerCall():
            return CallEvent(
                release=release,
                case=item.case,
                step=item.step,
                method=item.method,
                path=item.path,
                status=item.status,
                sent=None if item.sent is None else _json(item.sent, places),
                answer=_json(item.answer, places),
            )


def _turn(release: str, turn: Turn, places: Mapping[str, str], contract: EngineContract | None) -> TurnEvent:
    failure = turn.reading.result.failure_reason
    message = None if turn.acted is None else reported(turn.requests or ())
    kinds, paths = keys_of(turn, contract) if contract else (None, None)
    asked = [request for request in turn.requests or () if request.protocol is not None]
    return TurnEvent(
        **_command(release, turn, places),
        cwd=redact(turn.cwd, places),
        seconds=round(turn.seconds, 3),
        requests=None if turn.requests is None else tuple(_request(r, places) for r in _shown(turn.requests)),
        request_count=len(turn.requests or ()),
        handle=turn.session,
        outcome=turn.reading.result.outcome,
        failure_reason=failure and redact(failure, places),
        leftovers=tuple(" ".join(process.argv)[:MAX_ARGUMENT] for process in turn.leftovers),
        acted=turn.acted,
        reported=message and redact(message, places),
        kinds=kinds,
        paths=None if paths is None else tuple(paths),
        types=None if paths is None else tuple(paths.values()),
        searched=tuple(searched(turn.requests or (), contract.tool_search))[:MOST] if contract else (),
        headers=tuple(sorted({name[:LONGEST] for request in asked for name in request.headers})[:MOST]) or None,
    )


def _command(release: str, item: Turn | CommandOutput, places: Mapping[str, str]) -> dict[str, Any]:
    argv = [redact(token, places) for token in item.argv]
    return {
        "release": release,
        "case": item.case,
        "step": item.step,
        "argv": tuple(t if len(t) <= MAX_ARGUMENT else f"{t[:MAX_ARGUMENT]}… ({len(t)} characters)" for t in argv),
        "exit_code": item.exit_code,
        "ended": item.ended,
        "cpu_seconds": round(item.cpu_seconds, 3),
        "stdout": _output(item.stdout, places),
        "stderr": _output(item.stderr, places),
    }


def _output(data: bytes, places: Mapping[str, str]) -> OutputExcerpt:
    kept = data if len(data) <= MAX_EXCERPT else data[: MAX_EXCERPT // 2] + b"\n[...]\n" + data[-MAX_EXCERPT // 2 :]
    return OutputExcerpt(len(data), redact(kept.decode("utf-8", "backslashreplace"), places))


def _json(value: Any, places: Mapping[str, str]) -> str:
    return bounded(redact(json.dumps(value, ensure_ascii=False), places), MAX_EXCERPT)


def _shown(requests: Sequence[Exchange]) -> Iterable[Exchange]:
    """Return the first requests, in order; those to a model before an engine's look-ups, which may be many."""
    first = sorted(range(len(requests)), key=lambda number: (not requests[number].user_texts, number))[:MAX_REQUESTS]
    return (requests[number] for number in sorted(first))


def _request(exchange: Exchange, places: Mapping[str, str]) -> RequestExcerpt:
    last = exchange.user_texts[-1] if exchange.user_texts else ""
    return RequestExcerpt(
        method=exchange.method,
        protocol=exchange.protocol,
        model=exchange.model,
        nonces=exchange.nonces[:20],
        tools=exchange.tools[:100],
        bytes=exchange.size,
        reply=exchange.reply,
        path=redact(exchange.path, places)[:MAX_ARGUMENT],
        last_user_text=redact(last[-MAX_ARGUMENT:], places),
    )


def keys_of(turn: Turn, contract: EngineContract) -> tuple[tuple[str, ...] | None, Mapping[str, str] | None]:
    """List the kinds of a turn's records, and the key paths in them, each with the JSON types of its values.

    None: there are too many to list. A part of a list would show what is missing from it as gone.
    """
    kinds = tuple(turn.reading.census)
    # a sticky process prints a protocol, to which the contract's framing does not apply
    records = _records(turn, contract) if kinds else []
    types = dict[str, set[str]]()
    for path, value in _paths(records, contract.events.field):
        types.setdefault(path, set()).add(_TYPES.get(type(value), "number"))
    if len(kinds) + len(types) > MOST_KEYS:
        return None, None
    return kinds, {path: "|".join(sorted(types[path])) for path in sorted(types)}


def names(page: CommandOutput, contract: EngineContract) -> tuple[str, ...]:
    """List the options that a help page names, and the other words that the contract looks for there."""
    wanted = _help_page(page, contract)
    if wanted is None:
        return ()
    text = page.printed.on(wanted.stream)
    named = set(_LONG.findall(text)) | {next(filter(None, groups)) for groups in _SHORT.findall(text)}
    named |= set(wanted.names) - set(wanted.missing(text))
    return tuple(sorted(name[:LONGEST] for name in named)[:MOST])


def usages(page: CommandOutput, contract: EngineContract) -> tuple[str, ...]:
    """List the options that a help page describes, each with the value that it takes, such as `--model <MODEL>`.

    The page shows a value behind the name, as most parsers of arguments do, or its type or choices in brackets in the
    lines below it.
    """
    wanted = _help_page(page, contract)
    if wanted is None:
        return ()
    return _usages(page.printed.on(wanted.stream))


def _usages(text: str) -> tuple[str, ...]:
    described = dict[str, str]()
    for block in _BLOCK.findall(text):
        name = next(iter(_LONG.findall(block)), "")
        if not name or name in described:
            continue
        value = _VALUE.search(block)
        words = [name, *([value[1]] if value else []), *_CHOICES.findall(block)]
        described[name] = " ".join(" ".join(words).split())
    return tuple(sorted(text[:LONGEST] for text in described.values())[:MOST])


def _listed(page: CommandOutput, contract: EngineContract) -> dict[str, dict[str, str]] | None:
    case, _, step = page.name.partition("/")
    if step == SESSION:
        return {Kind.SESSION: dict.fromkeys(page.shown.splitlines(), "")}
    if case != LISTINGS or page.exit_code != 0 or page.ended is not Ended.EXIT:
        return None
    if step == ACP:
        return {Kind.PROTOCOL: answers(page.printed.on("stdout"))}
    listing = contract.listings[int(step.partition("-")[0]) - 1]
    arguments = page.argv[1 : len(page.argv) - len(listing.argv)]
    text = page.shown
    return listings.listed(listing, (contract.executable, *arguments), text, _usages(text))


def _help_page(page: CommandOutput, contract: EngineContract) -> HelpPage | None:
    number = page.name.rpartition("-")[2]
    if not page.name.startswith("static/help-") or not number.isdigit():
        return None
    return contract.help.pages[int(number) - 1]


def _records(turn: Turn, contract: EngineContract) -> list[Record]:
    stream = contract.events.stream
    cut = framer(contract.stream(stream))
    return [*cut.feed(turn.stdout if stream == "stdout" else turn.stderr), *cut.finish()]


def _paths(records: list[Record], field: str | None) -> Iterator[tuple[str, Any]]:
    """Return every key as `kind: path`, or just the path if records have no kind, with its value."""
    for record in records:
        kind = f"{value_at(record, field)}: " if field else ""
        for path, value in _below(record, "", 1):
            yield f"{kind}{path}"[:LONGEST], value


def _below(value: Any, above: str, depth: int) -> Iterator[tuple[str, Any]]:
    if depth > DEEPEST:
        return
    if isinstance(value, dict):
        for key, item in value.items():
            yield f"{above}{key}", item
            yield from _below(item, f"{above}{key}.", depth + 1)
    elif isinstance(value, list):
        for item in value:
            yield from _below(item, f"{above.removesuffix('.')}[].", depth)


class _Beginning(msgspec.Struct):
    """What the first line of a journal has in every version."""

    schema: str


class Journal:
    """Writes events to a file and passes them to listeners, in the same order to all. Safe for threads.

    An existing file is replaced; its folder is made. It is locked until it is closed. Raises MachineError if it can't
    be written.
    """

    def __init__(self, path: Path, listeners: Sequence[Callable[[Event], None]] = ()) -> None:
        self.path = path
        self._listeners = tuple(listeners)
        self._lock = Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: BinaryIO | None = path.open("wb", buffering=0)
        except OSError as error:
            raise _unwritable(path, error) from error
        with suppress(OSError):  # a disk of a network may have no locks
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def add(self, event: Event) -> None:
        """Write an event, with its texts shortened and secrets removed; dropped once the journal is closed.

        Listeners get it as it is written; they must not add events.
        """
        # a release that needs a package registry can be tested only by someone who knows which
        clean = partial(redact, registries=not isinstance(event, ReleaseFailed))
        cleaned = {"event": "", "at": ""} | _cleaned(msgspec.to_builtins(event), clean)
        with self._lock:
            if self._file is None:
                return
            cleaned["at"] = datetime.now(UTC).isoformat(timespec="milliseconds")
            line = msgspec.json.encode(cleaned)
            try:
                _write_all(self._file, line + b"\n")
            except OSError as error:
                raise _unwritable(self.path, error) from error
            for listener in self._listeners:
                listener(decode(line, Event, dec_hook=decode_hook))

    def close(self) -> None:
        """Close the journal; closing it twice is allowed."""
        with self._lock:
            if self._file is not None:
                self._file.close()
            self._file = None


def is_growing(path: Path) -> bool:
    """Whether a process is still writing a journal."""
    try:
        with locked(path, shared=True, wait=False):
            return False
    except OSError as error:
        return isinstance(error, BlockingIOError)


def read(path: Path) -> Iterator[Event]:
    """Return the events of a journal; an incomplete last line, left by a crash, is skipped.

    Raises UsageError if the file can't be read, a newer turngate wrote it, or another line holds no event.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    yield decode(line, Event, dec_hook=decode_hook)
                except (ValueError, RecursionError) as wrong:
                    if line.endswith(b"\n"):
                        _check_format(path, line)
                        what = f"{path}, line {number} is not an event: {wrong}"
                        raise UsageError(what, "pass a journal that turngate wrote, or run the probe again") from wrong
    except OSError as error:
        raise UsageError(f"can't read the journal {path}: {error.strerror}") from error


def _check_format(path: Path, line: bytes) -> None:
    """Raise UsageError if a line that can't be read begins the journal of a newer turngate."""
    try:
        version_of(decode(line, _Beginning).schema, SCHEMA)
    except NewerFormatError as newer:
        hint = "render it with that turngate, or run the probe again"
        raise UsageError(f"can't read the journal {path}: {newer}", hint) from newer
    except (ValueError, RecursionError):
        return


def _cleaned(value: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        # an undecodable byte of an argv is a lone surrogate, which can't be encoded as UTF-8
        return clean(bounded(value, LONGEST_TEXT)).encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {key: _cleaned(item, clean) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cleaned(item, clean) for item in value]
    return value


def _write_all(file: BinaryIO, data: bytes) -> None:
    # unbuffered, because a crash would lose the buffer; such a write may be partial
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def _unwritable(path: Path, error: OSError) -> MachineError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        hint = "free disk space, or set TURNGATE_CACHE_DIR (with --keep: that folder) to a folder on another disk"
        return MachineError(f"the disk of {path.parent} is full", hint)
    hint = "set TURNGATE_CACHE_DIR (with --keep: that folder) to a folder of yours"
    return MachineError(f"can't write the journal {path}: {error.strerror}", hint)
