"""From a request and the script to the journal's entry and the answer; no socket here."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from email.message import Message

from turngate_probes.stub_model.journal import Exchange
from turngate_probes.stub_model.protocol import Json, ModelAnswer, WireProtocol, encode
from turngate_probes.stub_model.replies import Cut, Hang, Refuse, Reply, ReplyRules, Text, ToolCall
from turngate_probes.stub_model.routes import Route, find

_CUT_TEXT = "This answer is going to end in the middle"


@dataclass(frozen=True, slots=True)
class Answer:
    """A document of known length, or the events of a stream, as sent; `cut`: half is sent, then the connection ends."""

    status: int
    body: Json | Sequence[bytes]
    cut: bool = False


def respond(request: Exchange, headers: Message, script: ReplyRules) -> tuple[Exchange, Answer | None]:
    """Return a request as journalled, and its answer; None is silence for as long as the connection lasts.

    The script is asked only where the model speaks.
    """
    route = find(request.method, request.path, headers)
    request = replace(request, protocol=route.protocol)
    match route.asks:
        case "generate":
            return _generate(request, route, script)
        case "count":
            return replace(request, reply="count"), Answer(200, route.given)
        case "models":
            model = route.wire.model(route.model or "stub")
            listed = model if route.model else route.wire.models(model)
            return replace(request, model=route.model, reply="models"), Answer(200, listed)
        case "upgrade":
            # 426 is the status at which clients go on over plain HTTP
            return refuse(request, headers, 426, "this backend speaks HTTP only")
        case "unknown":
            return refuse(request, headers, 404, f"unknown path: {request.method} {request.path}")


def refuse(request: Exchange, headers: Message, status: int, message: str) -> tuple[Exchange, Answer]:
    """Answer with an error in the shape of whose path it is."""
    route = find(request.method, request.path, headers)
    answer = Answer(status, route.wire.refusal(status, message))
    return replace(request, protocol=route.protocol, reply=f"refuse {status}"), answer


def _generate(request: Exchange, route: Route, script: ReplyRules) -> tuple[Exchange, Answer | None]:
    wire, problem = route.wire, ""
    try:
        sent = json.loads(request.body)
        problem = "" if isinstance(sent, dict) else "the body is not a JSON object"
    except (ValueError, RecursionError):
        problem = "the body is not JSON"
    if problem:
        return replace(request, reply="refuse 400"), Answer(400, wire.refusal(400, problem))
    document: Json = {**sent, **route.given}
    prompted = wire.read(document)
    reply, answer = _answer(wire, script.choose(document, prompted), document)
    model = document.get("model")
    model = model if isinstance(model, str) else None
    return replace(request, model=model, user_texts=prompted.user_texts, tools=prompted.tools, reply=reply), answer


def _answer(wire: WireProtocol, reply: Reply, document: Json) -> tuple[str, Answer | None]:
    """Return what the journal calls a reply, and the answer that it makes."""
    model = str(document.get("model"))
    match reply:
        case Refuse(status, message):
            return f"refuse {status}", Answer(status, wire.refusal(status, message))
        case Hang():
            return "hang", None
        case Text(text):
            label, said = "text", ModelAnswer(model, text)
        case ToolCall(name, arguments):
            label, said = f"tool_call {name}", ModelAnswer(model, tool=name, arguments=arguments)
        case Cut():
            label, said = "cut", ModelAnswer(model, _CUT_TEXT)
    streamed = [encode(event) for event in wire.events(said, document)] if document.get("stream") else None
    return label, Answer(200, streamed or wire.whole(said), cut=label == "cut")
