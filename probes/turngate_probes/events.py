"""Turns what was seen and judged into journal events: plain data, bounded, without paths of this machine."""

from collections.abc import Mapping
from typing import Any

from turngate.redact import redact
from turngate.verdict import ClauseResult
from turngate_probes.observe import Page, Turn
from turngate_probes.stub_model import Exchange

MAX_EXCERPT = 4000
MAX_ARGUMENT = 300
MAX_REQUESTS = 12


def turn_event(turn: Turn, places: Mapping[str, str]) -> dict[str, Any]:
    """Describe a turn."""
    requests = None
    if turn.requests is not None:
        requests = [_request(each, places) for each in turn.requests[:MAX_REQUESTS]]
    return _command(turn, turn.argv, places) | {
        "cwd": redact(turn.cwd, places),
        "seconds": round(turn.seconds, 3),
        "requests": requests,
        "request_count": len(turn.requests or ()),
        "handle": turn.session,
        "outcome": turn.reading.result.outcome.value,
        "failure_reason": turn.reading.result.failure_reason and redact(turn.reading.result.failure_reason, places),
        "leftovers": [" ".join(each.argv)[:MAX_ARGUMENT] for each in turn.leftovers],
    }


def page_event(page: Page, places: Mapping[str, str]) -> dict[str, Any]:
    """Describe a plain command."""
    return _command(page, page.argv, places)


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
    }


def _command(item: Turn | Page, argv: tuple[str, ...], places: Mapping[str, str]) -> dict[str, Any]:
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
        "bytes": len(exchange.body),
        "reply": exchange.reply,
    }
