"""From a request and the script to the journal's entry and the answer; no socket here.

Method, path and headers tell the vendor's protocol. Nonces mark the conversation that a request belongs to.
"""

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from email.message import Message
from typing import Literal
from urllib.parse import unquote, urlsplit

from msgspec import Struct, field
from msgspec.structs import replace

from turngate_probes.stub_model import anthropic, gemini, openai_chat, openai_responses
from turngate_probes.stub_model.protocol import (
    Cut,
    Hang,
    Json,
    ModelAnswer,
    Refuse,
    Reply,
    ReplyRules,
    Structured,
    Summary,
    Text,
    ToolCall,
    ToolIds,
    WireProtocol,
    encode,
    is_forced,
)

# unanchored on purpose: in a request's raw JSON a nonce may follow an escape such as \n, letters and all
NONCE = re.compile(r"tgn-[0-9a-f]{16}")
# a base URL may include a version or the path of a gateway, and some clients add one themselves
_PREFIX = re.compile(r"(?:/+(?:api/openrouter|v1(?:beta|alpha)?)(?=/))*/+")
_GEMINI_CALL = re.compile(r"(?:tuned)?models/(?P<model>[^:]+):(?P<verb>\w+)", re.IGNORECASE)
_MODELS = re.compile(r"models(?:/(?P<model>[^:]+))?")
_CUT_TEXT = "This answer is going to end in the middle"


def new_nonce() -> str:
    """Return a unique word for a prompt: "tgn-" and 16 hexadecimal digits."""
    return "tgn-" + secrets.token_hex(8)


def nonces_in(body: bytes) -> tuple[str, ...]:
    """Return the nonces of a body in order of first appearance, each once."""
    return tuple(dict.fromkeys(NONCE.findall(body.decode("utf-8", "replace"))))


class Exchange(Struct, frozen=True):
    """A request to the backend and its answer.

    Attributes:
        at: when the request had been read, in seconds since the epoch.
        method: the HTTP method; empty if the request was not HTTP.
        path: path and query as requested, without scheme and host; the first line if it was not a request.
        protocol: openai.responses, openai.chat, gemini, anthropic; gemini.count and anthropic.count are token
            counts, models is a list of models, proxy a tunnel to the backend itself; None: something unknown.
        model: the model asked for.
        user_texts: the text parts of the user's messages, in order.
        nonces: all matches of NONCE anywhere in the body, in order of first appearance, each once.
        tools: the names of the tools offered to the model; the type of those that have no name.
        body: as sent, content-encoding undone; empty if it could not be read; of a recording the signs of approval.
        reply: "text", "json", "summary", "tool_call NAME", "refuse STATUS", "hang", "cut", "count", "models", "tunnel".
        size: bytes of the body as sent, content-encoding undone; None if a recording does not say.
        peer: the local port from which it came; 0 if a recording does not say.
        headers: its headers, by lower-case name; empty if a recording does not say.
        unpaired: the calls of tools that have no result, and the results that no call asks for, or that came before;
            empty if a recording does not say.
    """

    at: float
    method: str
    path: str
    protocol: str | None = None
    model: str | None = None
    user_texts: tuple[str, ...] = ()
    nonces: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    body: bytes = b""
    reply: str = ""
    size: int | None = 0
    peer: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    unpaired: ToolIds = ToolIds()

    @property
    def may_call(self) -> bool:
        """Whether the model may choose a tool, or none; where a release asks for a title, it may not."""
        try:
            return not is_forced(json.loads(self.body).get("tool_choice"))
        except (ValueError, RecursionError, AttributeError):
            return True

    @property
    def is_for_json(self) -> bool:
        """Whether it asks for JSON that fits a schema, beside the conversation, as for which model should answer."""
        return self.reply == "json"

    @property
    def is_call(self) -> bool:
        """Whether the model asked for a tool."""
        return self.reply.startswith("tool_call ")


class Egress(Struct, frozen=True):
    """A refused attempt to leave loopback through the proxy, at `at` seconds since the epoch."""

    at: float
    host: str
    port: int
    method: str


class Route(Struct, frozen=True):
    """What a request asks for, and the protocol that answers it.

    Attributes:
        asks: "generate" for the model's answer, "upgrade" for a WebSocket, "count" for a number of tokens, "models"
            for all models or one; "unknown" is anything else.
        wire: the protocol of the vendor; errors have its shape too.
        given: for "generate" the values in the path, for "count" the answer.
        model: the one that "models" is about.
    """

    asks: Literal["generate", "upgrade", "count", "models", "unknown"]
    wire: WireProtocol
    given: Json = field(default_factory=dict)
    model: str | None = None

    @property
    def protocol(self) -> str | None:
        """Its name in the journal."""
        names = {"count": f"{self.wire.name}.count", "models": "models", "unknown": None}
        return names.get(self.asks, self.wire.name)


UNKNOWN = Route("unknown", openai_responses.WIRE)
_POSTS: Mapping[str, Route] = {
    "responses": Route("generate", openai_responses.WIRE),
    "chat/completions": Route("generate", openai_chat.WIRE),
    "messages": Route("generate", anthropic.WIRE),
    "messages/count_tokens": Route("count", anthropic.WIRE, {"input_tokens": 10}),
}


def find(method: str, path: str, headers: Message) -> Route:
    """Return what a request to `path` (with its query) asks for."""
    bare = urlsplit(path).path.rstrip("/")
    start = _PREFIX.match(bare)
    name = bare[start.end() :] if start else bare
    if method == "POST":
        return _POSTS.get(name) or _gemini_call(name)
    if method != "GET":
        return UNKNOWN
    if name == "responses" and headers.get("upgrade", "").lower() == "websocket":
        return Route("upgrade", openai_responses.WIRE)
    if match := _MODELS.fullmatch(name):
        model = match["model"] and unquote(match["model"])
        return Route("models", _asking_vendor(path, headers), model=model)
    return UNKNOWN


def _gemini_call(name: str) -> Route:
    match = _GEMINI_CALL.fullmatch(name)
    verb = match["verb"] if match else ""
    if match and verb in {"generateContent", "streamGenerateContent"}:
        given = {"model": unquote(match["model"]), "stream": verb == "streamGenerateContent"}
        return Route("generate", gemini.WIRE, given)
    return Route("count", gemini.WIRE, {"totalTokens": 10}) if verb == "countTokens" else UNKNOWN


def _asking_vendor(path: str, headers: Message) -> WireProtocol:
    """Return which vendor's client requests models, judging by its headers: the vendors share the path."""
    if "anthropic-version" in headers:
        return anthropic.WIRE
    if "x-goog-api-key" in headers or "/v1beta/" in path or "key=" in urlsplit(path).query:
        return gemini.WIRE
    return openai_responses.WIRE


class Answer(Struct, frozen=True):
    """A document of known length, or the events of a stream, as sent; `cut`: half is sent, then the connection ends."""

    status: int
    body: Json | Sequence[bytes]
    cut: bool = False


def respond(request: Exchange, headers: Message, script: ReplyRules) -> tuple[Exchange, Answer | None]:
    """Return a request as journalled, and its answer; None is silence for as long as the connection lasts.

    The script is used only where the model speaks. Where its answer must be JSON that fits a schema, as where an engine
    asks one model which other model should answer, the script can only refuse the request.
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
    reply, answer = _answer(wire, script.choose(document, prompted, wire.schema(document)), document)
    model = document.get("model") if isinstance(document.get("model"), str) else None
    request = replace(
        request,
        model=model,
        user_texts=prompted.user_texts,
        tools=prompted.tools,
        reply=reply,
        unpaired=prompted.unpaired,
    )
    return request, answer


def _answer(wire: WireProtocol, reply: Reply, document: Json) -> tuple[str, Answer | None]:
    """Return the journal's name for a reply, and its answer."""
    model = str(document.get("model"))
    match reply:
        case Refuse(status, message):
            return f"refuse {status}", Answer(status, wire.refusal(status, message))
        case Hang():
            return "hang", None
        case Text(text, tokens):
            label = "summary" if isinstance(reply, Summary) else "json" if isinstance(reply, Structured) else "text"
            answer = ModelAnswer(model, text, tokens=tokens)
        case ToolCall(name, arguments, tokens, through, program):
            called = ModelAnswer(model, tool=through or name, arguments=arguments, tokens=tokens, program=program)
            label, answer = f"tool_call {name}", called
        case Cut():
            label, answer = "cut", ModelAnswer(model, _CUT_TEXT)
    streamed = [encode(event) for event in wire.events(answer, document)] if document.get("stream") else None
    return label, Answer(200, streamed or wire.whole(answer), cut=label == "cut")
