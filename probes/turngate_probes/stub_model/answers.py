"""From a request and the script to the journal's entry and the answer; no socket here."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import Message
from typing import TypeAlias

from turngate_probes.stub_model import openai_responses
from turngate_probes.stub_model.journal import Exchange, nonces_in
from turngate_probes.stub_model.model_lists import listing
from turngate_probes.stub_model.protocol import Json, ModelAnswer, Prompted, WireProtocol, encode
from turngate_probes.stub_model.replies import Cut, Hang, Refuse, Reply, ReplyRules, Text, ToolCall
from turngate_probes.stub_model.routes import Generate, Models, Route, TokenCount, Unknown, Upgrade, find

_NOTHING = Prompted((), (), after_tool_result=False)
_CUT_TEXT = "This answer is going to end in the middle"


@dataclass(frozen=True, slots=True)
class BackendRequest:
    """A request that was read: when (epoch seconds), and its decoded body. `path` has the query."""

    at: float
    method: str
    path: str
    headers: Message
    body: bytes


@dataclass(frozen=True, slots=True)
class WholeAnswer:
    """A document of known length; `cut`: half of it is sent, then the connection is closed."""

    status: int
    document: Json
    cut: bool = False


@dataclass(frozen=True, slots=True)
class StreamedAnswer:
    """Server-sent events as sent; `cut`: the first half is sent, then the connection is closed."""

    events: Sequence[bytes]
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Silence:
    """Nothing, for as long as the connection lasts."""


Answer: TypeAlias = WholeAnswer | StreamedAnswer | Silence


def respond(request: BackendRequest, script: ReplyRules) -> tuple[Exchange, Answer]:
    """Return what to journal of a request, and its answer. The script is asked only where the model speaks."""
    route = find(request.method, request.path, request.headers)
    match route:
        case Generate(wire, given):
            return _generate(request, script, wire, given)
        case TokenCount(_, key):
            return _entry(request, _protocol(route), "count"), WholeAnswer(200, {key: 10})
        case Models(wire, model):
            entry = _entry(request, _protocol(route), "models", model=model)
            return entry, WholeAnswer(200, listing(wire.name, model))
        case Upgrade(wire):
            # 426 is the status at which clients go on over plain HTTP
            return refuse(request, 426, "this backend speaks HTTP only")
        case Unknown():
            return refuse(request, 404, f"unknown path: {request.method} {request.path}")


def refuse(request: BackendRequest, status: int, message: str) -> tuple[Exchange, Answer]:
    """Answer with an error in the shape of whose path it is."""
    route = find(request.method, request.path, request.headers)
    wire = openai_responses.WIRE if isinstance(route, Unknown) else route.wire
    entry = _entry(request, _protocol(route), f"refuse {status}")
    return entry, WholeAnswer(status, wire.refusal(status, message))


def _protocol(route: Route) -> str | None:
    match route:
        case Generate(wire) | Upgrade(wire):
            return wire.name
        case TokenCount(wire):
            return f"{wire.name}.count"
        case Models():
            return "models"
        case Unknown():
            return None


def _generate(request: BackendRequest, script: ReplyRules, wire: WireProtocol, given: Json) -> tuple[Exchange, Answer]:
    try:
        sent = json.loads(request.body)
    except (ValueError, RecursionError):
        return refuse(request, 400, "the body is not JSON")
    if not isinstance(sent, dict):
        return refuse(request, 400, "the body is not a JSON object")
    document: Json = {**sent, **given}
    prompted = wire.read(document)
    reply = script.choose(document, prompted)
    model = document.get("model")
    named = model if isinstance(model, str) else None
    return _entry(request, wire.name, _label(reply), prompted, model=named), _answer(wire, reply, document)


def _answer(wire: WireProtocol, reply: Reply, document: Json) -> Answer:
    model = str(document.get("model"))
    match reply:
        case Refuse(status, message):
            return WholeAnswer(status, wire.refusal(status, message))
        case Hang():
            return Silence()
        case Text(text):
            said = ModelAnswer(model, text)
        case ToolCall(name, arguments):
            said = ModelAnswer(model, tool=name, arguments=arguments)
        case Cut():
            said = ModelAnswer(model, _CUT_TEXT)
    cut = isinstance(reply, Cut)
    if document.get("stream"):
        return StreamedAnswer([encode(event) for event in wire.events(said, document)], cut=cut)
    return WholeAnswer(200, wire.whole(said), cut=cut)


def _label(reply: Reply) -> str:
    match reply:
        case Text():
            return "text"
        case ToolCall(name):
            return f"tool_call {name}"
        case Refuse(status):
            return f"refuse {status}"
        case Hang():
            return "hang"
        case Cut():
            return "cut"


def _entry(
    request: BackendRequest,
    protocol: str | None,
    reply: str,
    prompted: Prompted = _NOTHING,
    *,
    model: str | None = None,
) -> Exchange:
    return Exchange(
        at=request.at,
        method=request.method,
        path=request.path,
        protocol=protocol,
        model=model,
        user_texts=prompted.user_texts,
        nonces=nonces_in(request.body),
        tools=prompted.tools,
        body=request.body,
        reply=reply,
        size=len(request.body),
    )
