"""The stub backend's record of requests, and the nonces that mark a conversation in them."""

import re
import secrets
from collections.abc import Mapping

from msgspec import Struct, field

# unanchored on purpose: in a request's raw JSON a nonce may follow an escape such as \n, letters and all
NONCE = re.compile(r"tgn-[0-9a-f]{16}")


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
        reply: "text", "tool_call NAME", "refuse STATUS", "hang", "cut", "count", "models", "tunnel".
        size: bytes of the body as sent, content-encoding undone; None if a recording does not say.
        peer: the local port from which it came; 0 if a recording does not say.
        headers: its headers, by lower-case name; empty if a recording does not say.
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


class Egress(Struct, frozen=True):
    """A refused attempt to leave loopback through the proxy, at `at` seconds since the epoch."""

    at: float
    host: str
    port: int
    method: str
