"""Which request is whose: from method, path and headers to the protocol that it speaks."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from turngate_probes.stub_model import anthropic, gemini, openai_chat, openai_responses
from turngate_probes.stub_model.protocol import Json, WireProtocol

# a base URL is given with or without its version, and some clients add one of their own
_VERSIONS = re.compile(r"(?:/+v1(?:beta|alpha)?(?=/))*/+")
_GEMINI_CALL = re.compile(r"(?:tuned)?models/(?P<model>[^:]+):(?P<verb>\w+)", re.IGNORECASE)
_MODELS = re.compile(r"models(?:/(?P<model>[^:]+))?")


@dataclass(frozen=True, slots=True)
class Generate:
    """The model is asked to say something; `given` are the values that stand in the path."""

    wire: WireProtocol
    given: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Upgrade:
    """The protocol is asked for over a WebSocket."""

    wire: WireProtocol


@dataclass(frozen=True, slots=True)
class TokenCount:
    """How many tokens would that be? `key` is where the answer puts the number."""

    wire: WireProtocol
    key: str


@dataclass(frozen=True, slots=True)
class Models:
    """Which models are there, or one of them, as the vendor of `wire` tells it."""

    wire: WireProtocol
    model: str | None


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nothing that the stub backend knows."""


Route: TypeAlias = Generate | Upgrade | TokenCount | Models | Unknown

_POSTS: Mapping[str, Route] = {
    "responses": Generate(openai_responses.WIRE),
    "chat/completions": Generate(openai_chat.WIRE),
    "messages": Generate(anthropic.WIRE),
    "messages/count_tokens": TokenCount(anthropic.WIRE, "input_tokens"),
}


def find(method: str, path: str, headers: Message) -> Route:
    """Return what a request to `path` (with its query) asks for."""
    bare = urlsplit(path).path.rstrip("/")
    start = _VERSIONS.match(bare)
    name = bare[start.end() :] if start else bare
    if method == "POST":
        return _POSTS.get(name) or _gemini_call(name)
    if method != "GET":
        return Unknown()
    if name == "responses" and headers.get("upgrade", "").lower() == "websocket":
        return Upgrade(openai_responses.WIRE)
    if match := _MODELS.fullmatch(name):
        return Models(_asking_vendor(path, headers), _unquoted(match["model"]))
    return Unknown()


def _gemini_call(name: str) -> Route:
    match = _GEMINI_CALL.fullmatch(name)
    if match is None:
        return Unknown()
    model = unquote(match["model"])
    match match["verb"]:
        case "generateContent":
            return Generate(gemini.WIRE, {"model": model, "stream": False})
        case "streamGenerateContent":
            return Generate(gemini.WIRE, {"model": model, "stream": True})
        case "countTokens":
            return TokenCount(gemini.WIRE, "totalTokens")
        case _:
            return Unknown()


def _asking_vendor(path: str, headers: Message) -> WireProtocol:
    """Tell by its habits who asks for models: the vendors share the path."""
    if "anthropic-version" in headers:
        return anthropic.WIRE
    if "x-goog-api-key" in headers or "/v1beta/" in path or "key=" in urlsplit(path).query:
        return gemini.WIRE
    return openai_responses.WIRE


def _unquoted(model: str | None) -> str | None:
    return None if model is None else unquote(model)
