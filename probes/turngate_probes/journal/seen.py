"""From what was seen to events: bounded, and without paths of this machine."""

import json
from collections.abc import Mapping
from typing import Any

from turngate.contract.evidence import OutputExcerpt, RequestExcerpt
from turngate.contract.structs import EngineContract
from turngate.sanitize import bounded, redact
from turngate_probes.harness.observations import Call, CommandOutput, Observation, Turn
from turngate_probes.journal.events import CallEvent, PageEvent, SeenEvent, TurnEvent
from turngate_probes.journal.surface import keys_of, names
from turngate_probes.journal.tool_access import told
from turngate_probes.stub_model import Exchange

MAX_EXCERPT = 4000
MAX_ARGUMENT = 300
MAX_REQUESTS = 12


def seen_event(
    release: str, item: Observation, places: Mapping[str, str], contract: EngineContract | None = None
) -> SeenEvent:
    """Describe what was seen; with a contract also what can be compared between releases."""
    case, _, step = item.name.partition("/")
    match item:
        case Turn():
            return _turn(release, item, places, contract)
        case CommandOutput():
            return PageEvent(**_command(release, item, places), names=names(item, contract) if contract else None)
        case Call():
            return CallEvent(
                release=release, case=case, step=step, method=item.method, path=item.path, status=item.status,
                sent=None if item.sent is None else _json(item.sent, places), answer=_json(item.answer, places),
            )  # fmt: skip


def _turn(release: str, turn: Turn, places: Mapping[str, str], contract: EngineContract | None) -> TurnEvent:
    failure = turn.reading.result.failure_reason
    said = None if turn.acted is None else told(turn.requests or ())
    kinds, paths = keys_of(turn, contract) if contract else (None, None)
    return TurnEvent(
        **_command(release, turn, places), cwd=redact(turn.cwd, places), seconds=round(turn.seconds, 3),
        requests=None if turn.requests is None else tuple(_request(r, places) for r in turn.requests[:MAX_REQUESTS]),
        request_count=len(turn.requests or ()), handle=turn.session, outcome=turn.reading.result.outcome,
        failure_reason=failure and redact(failure, places),
        leftovers=tuple(" ".join(process.argv)[:MAX_ARGUMENT] for process in turn.leftovers),
        acted=turn.acted, told=said and redact(said, places), kinds=kinds, paths=paths,
    )  # fmt: skip


def _command(release: str, item: Turn | CommandOutput, places: Mapping[str, str]) -> dict[str, Any]:
    case, _, step = item.name.partition("/")
    shown = [redact(token, places) for token in item.argv]
    return {
        "release": release, "case": case, "step": step,
        "argv": tuple(t if len(t) <= MAX_ARGUMENT else f"{t[:MAX_ARGUMENT]}… ({len(t)} characters)" for t in shown),
        "exit_code": item.exit_code, "ended": item.ended, "cpu_seconds": round(item.cpu_seconds, 3),
        "stdout": _output(item.stdout, places), "stderr": _output(item.stderr, places),
    }  # fmt: skip


def _output(data: bytes, places: Mapping[str, str]) -> OutputExcerpt:
    kept = data if len(data) <= MAX_EXCERPT else data[: MAX_EXCERPT // 2] + b"\n[...]\n" + data[-MAX_EXCERPT // 2 :]
    return OutputExcerpt(len(data), redact(kept.decode("utf-8", "backslashreplace"), places))


def _json(value: Any, places: Mapping[str, str]) -> str:
    return bounded(redact(json.dumps(value, ensure_ascii=False), places), MAX_EXCERPT)


def _request(exchange: Exchange, places: Mapping[str, str]) -> RequestExcerpt:
    last = exchange.user_texts[-1] if exchange.user_texts else ""
    return RequestExcerpt(
        method=exchange.method, protocol=exchange.protocol, model=exchange.model, nonces=exchange.nonces[:20],
        tools=exchange.tools[:100], bytes=exchange.size, reply=exchange.reply,
        path=redact(exchange.path, places)[:MAX_ARGUMENT], last_user_text=redact(last[-MAX_ARGUMENT:], places),
    )  # fmt: skip
