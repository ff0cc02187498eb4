"""Turns what was seen and judged into journal events: plain data, bounded, without paths of this machine."""

import json
from collections.abc import Mapping
from typing import Any

from turngate.contract.verdict import ClauseResult
from turngate.sanitize import bounded, redact
from turngate_probes.harness.observations import Call, CommandOutput, Observation, Turn
from turngate_probes.journal.tool_access import told
from turngate_probes.stub_model import Exchange

MAX_EXCERPT = 4000
MAX_ARGUMENT = 300
MAX_REQUESTS = 12


def sight_event(item: Observation, places: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """Return the kind of the event that tells of what was seen, and its fields."""
    match item:
        case Turn():
            return "turn", turn_event(item, places)
        case CommandOutput():
            return "page", page_event(item, places)
        case Call():
            return "call", call_event(item, places)


def turn_event(turn: Turn, places: Mapping[str, str]) -> dict[str, Any]:
    """Describe a turn."""
    requests = None
    if turn.requests is not None:
        requests = [_request(each, places) for each in turn.requests[:MAX_REQUESTS]]
    return (
        _command(turn, turn.argv, places)
        | {
            "cwd": redact(turn.cwd, places),
            "seconds": round(turn.seconds, 3),
            "requests": requests,
            "request_count": len(turn.requests or ()),
            "handle": turn.session,
            "outcome": turn.reading.result.outcome.value,
            "failure_reason": turn.reading.result.failure_reason and redact(turn.reading.result.failure_reason, places),
            "leftovers": [" ".join(each.argv)[:MAX_ARGUMENT] for each in turn.leftovers],
        }
        | _acted(turn, places)
    )


def page_event(page: CommandOutput, places: Mapping[str, str]) -> dict[str, Any]:
    """Describe a plain command."""
    return _command(page, page.argv, places)


def call_event(call: Call, places: Mapping[str, str]) -> dict[str, Any]:
    """Describe a request to the reference server."""
    case, _, step = call.name.partition("/")
    return {
        "case": case,
        "step": step,
        "method": call.method,
        "path": call.path,
        "status": call.status,
        "sent": None if call.sent is None else _json(call.sent, places),
        "answer": _json(call.answer, places),
    }


def clause_event(found: ClauseResult) -> dict[str, Any]:
    """Describe the result of a clause."""
    return {
        "id": found.clause.id,
        "level": found.clause.level,
        "severity": found.clause.severity.value,
        "result": found.result.value,
        "detail": found.detail,
        "stale": found.stale,
        "evidence": list(found.evidence),
        "needs": list(found.needs),
        "reason": found.reason and found.reason.value,
    }


def _acted(turn: Turn, places: Mapping[str, str]) -> dict[str, Any]:
    """Describe what became of the tool that the model asked for, if it asked for one."""
    if turn.acted is None:
        return {}
    said = told(turn.requests or ())
    return {"acted": turn.acted, "told": said and redact(said, places)}


def _command(item: Turn | CommandOutput, argv: tuple[str, ...], places: Mapping[str, str]) -> dict[str, Any]:
    case, _, step = item.name.partition("/")
    shown = [redact(token, places) for token in argv]
    return {
        "case": case,
        "step": step,
        "argv": [t if len(t) <= MAX_ARGUMENT else f"{t[:MAX_ARGUMENT]}… ({len(t)} characters)" for t in shown],
        "exit_code": item.exit_code,
        "ended": item.ended.value,
        "cpu_seconds": round(item.cpu_seconds, 3),
        "stdout": _stream(item.stdout, places),
        "stderr": _stream(item.stderr, places),
    }


def _stream(data: bytes, places: Mapping[str, str]) -> dict[str, Any]:
    kept = data if len(data) <= MAX_EXCERPT else data[: MAX_EXCERPT // 2] + b"\n[...]\n" + data[-MAX_EXCERPT // 2 :]
    return {"bytes": len(data), "excerpt": redact(kept.decode("utf-8", "backslashreplace"), places)}


def _json(value: Any, places: Mapping[str, str]) -> str:
    return bounded(redact(json.dumps(value, ensure_ascii=False), places), MAX_EXCERPT)


def _request(exchange: Exchange, places: Mapping[str, str]) -> dict[str, Any]:
    last = exchange.user_texts[-1] if exchange.user_texts else ""
    return {
        "method": exchange.method,
        "path": redact(exchange.path, places)[:MAX_ARGUMENT],
        "protocol": exchange.protocol,
        "model": exchange.model,
        "nonces": list(exchange.nonces[:20]),
        "tools": list(exchange.tools[:100]),
        "last_user_text": redact(last[-MAX_ARGUMENT:], places),
        "bytes": exchange.size,
        "reply": exchange.reply,
    }
