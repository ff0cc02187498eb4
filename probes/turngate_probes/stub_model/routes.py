"""Routes requests: from method, path and headers to the vendor's protocol."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from typing import Literal
from urllib.parse import unquote, urlsplit

from turngate_probes.stub_model import anthropic, gemini, openai_chat, openai_responses
from turngate_probes.stub_model.protocol import Json, WireProtocol

# a base URL may include a version or not, and some clients add one themselves
_VERSIONS = re.compile(r"(?:/+v1(?:beta|alpha)?(?=/))*/+")
_GEMINI_CALL = re.compile(r"(?:tuned)?models/(?P<model>[^:]+):(?P<verb>\w+)", re.IGNORECASE)
_MODELS = re.compile(r"models(?:/(?P<model>[^:]+))?")


@dataclass(frozen=True, slots=True)
class Route:
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
    start = _VERSIONS.match(bare)
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
