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

    The script is used only where the model speaks.
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
            return _refuse(request, route.wire, 426, "this backend speaks HTTP only")
        case "unknown":
            return _refuse(request, route.wire, 404, f"unknown path: {request.method} {request.path}")


def refuse(request: Exchange, headers: Message, status: int, message: str) -> tuple[Exchange, Answer]:
    """Answer with an error in the format of the vendor that the path belongs to."""
    route = find(request.method, request.path, headers)
    return _refuse(replace(request, protocol=route.protocol), route.wire, status, message)


def _refuse(request: Exchange, wire: WireProtocol, status: int, message: str) -> tuple[Exchange, Answer]:
    return replace(request, reply=f"refuse {status}"), Answer(status, wire.refusal(status, message))


def _generate(request: Exchange, route: Route, script: ReplyRules) -> tuple[Exchange, Answer | None]:
    wire = route.wire
    try:
        sent = json.loads(request.body)
    except (ValueError, RecursionError):
        return _refuse(request, wire, 400, "the body is not JSON")
    if not isinstance(sent, dict):
        return _refuse(request, wire, 400, "the body is not a JSON object")
    document: Json = {**sent, **route.given}
    prompted = wire.read(document)
    reply, answer = _answer(wire, script.choose(document, prompted), document)
    model = document.get("model") if isinstance(document.get("model"), str) else None
    request = replace(request, model=model, user_texts=prompted.user_texts, tools=prompted.tools, reply=reply)
    return request, answer


def _answer(wire: WireProtocol, reply: Reply, document: Json) -> tuple[str, Answer | None]:
    """Return the journal's name for a reply, and its answer."""
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
