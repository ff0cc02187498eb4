"""Converts observations to events, shortened and without paths of this machine.

Turns and help pages include what can be compared between releases: kinds of records, key paths, option names.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from turngate import EngineContract
from turngate.contract.verdict import OutputExcerpt, RequestExcerpt
from turngate.sanitize import bounded, redact
from turngate.turn.framing import framer
from turngate.turn.records import Record, value_at
from turngate_probes.harness.observations import CommandOutput, Observation, ServerCall, Turn
from turngate_probes.journal.events import CallEvent, ObservedEvent, PageEvent, TurnEvent
from turngate_probes.journal.tool_access import reported
from turngate_probes.stub_model import Exchange

MAX_EXCERPT = 4000
MAX_ARGUMENT = 300
MAX_REQUESTS = 12
MOST = 400
LONGEST = 160
DEEPEST = 6
_LONG = re.compile(r"(?<![\w-])--[A-Za-z][\w-]*")
# a short option counts at the start of a line, or next to a long one
_SHORT = re.compile(
    r"^\s*(-[A-Za-z])(?=[\s,=]|$)|(?<![\w-])(-[A-Za-z])(?=,\s*--)|(?<=,\s)(-[A-Za-z])(?=[\s,]|$)", re.MULTILINE
)


def seen_event(
    release: str, item: Observation, places: Mapping[str, str], contract: EngineContract | None = None
) -> ObservedEvent:
    """Return the event of an observation; with a contract also what can be compared between releases."""
    match item:
        case Turn():
            return _turn(release, item, places, contract)
        case CommandOutput():
            return PageEvent(**_command(release, item, places), names=names(item, contract) if contract else None)
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
    return TurnEvent(
        **_command(release, turn, places),
        cwd=redact(turn.cwd, places),
        seconds=round(turn.seconds, 3),
        requests=None if turn.requests is None else tuple(_request(r, places) for r in turn.requests[:MAX_REQUESTS]),
        request_count=len(turn.requests or ()),
        handle=turn.session,
        outcome=turn.reading.result.outcome,
        failure_reason=failure and redact(failure, places),
        leftovers=tuple(" ".join(process.argv)[:MAX_ARGUMENT] for process in turn.leftovers),
        acted=turn.acted,
        reported=message and redact(message, places),
        kinds=kinds,
        paths=paths,
    )


def _command(release: str, item: Turn | CommandOutput, places: Mapping[str, str]) -> dict[str, Any]:
    shown = [redact(token, places) for token in item.argv]
    return {
        "release": release,
        "case": item.case,
        "step": item.step,
        "argv": tuple(t if len(t) <= MAX_ARGUMENT else f"{t[:MAX_ARGUMENT]}… ({len(t)} characters)" for t in shown),
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


def keys_of(turn: Turn, contract: EngineContract) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """List the kinds of a turn's records, and the key paths in them."""
    kinds = tuple(turn.reading.census)
    # a sticky process prints a protocol, to which the contract's framing does not apply
    records = _records(turn, contract) if kinds else []
    return kinds[:MOST], tuple(sorted(set(_paths(records, contract.events.field)))[:MOST])


def names(page: CommandOutput, contract: EngineContract) -> tuple[str, ...]:
    """List the options that a help page names, and the other words that the contract looks for there."""
    number = page.name.rpartition("-")[2]
    if not page.name.startswith("static/help-") or not number.isdigit():
        return ()
    wanted = contract.help.pages[int(number) - 1]
    text = page.printed.on(wanted.stream)
    named = set(_LONG.findall(text)) | {next(filter(None, groups)) for groups in _SHORT.findall(text)}
    named |= set(wanted.names) - set(wanted.missing(text))
    return tuple(sorted(name[:LONGEST] for name in named)[:MOST])


def _records(turn: Turn, contract: EngineContract) -> list[Record]:
    stream = contract.events.stream
    cut = framer(contract.stream(stream))
    return [*cut.feed(turn.stdout if stream == "stdout" else turn.stderr), *cut.finish()]


def _paths(records: list[Record], field: str | None) -> Iterator[str]:
    """Return every key as `kind: path`, or just the path if records have no kind."""
    for record in records:
        kind = f"{value_at(record, field)}: " if field else ""
        for path in _below(record, "", 1):
            yield f"{kind}{path}"[:LONGEST]


def _below(value: Any, above: str, depth: int) -> Iterator[str]:
    if depth > DEEPEST:
        return
    if isinstance(value, dict):
        for key, item in value.items():
            yield f"{above}{key}"
            yield from _below(item, f"{above}{key}.", depth + 1)
    elif isinstance(value, list):
        for item in value:
            yield from _below(item, f"{above.removesuffix('.')}[].", depth)
