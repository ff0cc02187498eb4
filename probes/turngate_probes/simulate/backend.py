"""Where a simulated engine has its answers from: a model backend over HTTP, or without one itself."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import urlsplit

URL_VARIABLE = "TURNGATE_SIMULATE_URL"
REPLY_VARIABLE = "TURNGATE_SIMULATE_REPLY"
AWAY, CUT = "away", "cut"
BAD_REQUEST = 400
Message: TypeAlias = Mapping[str, Any]

_CHOICE = {"kind": "choose_one", "prompt": "Which colour?", "options": ["red", "blue"]}
_QUESTION = {"outcome": "ask_user", "interaction": {**_CHOICE, "required_fields": [], "context": {}}}
_FINAL = {"outcome": "final", "final_data": {"colour": "blue"}}


@dataclass(frozen=True, slots=True)
class Said:
    """The model's text."""

    text: str


@dataclass(frozen=True, slots=True)
class Called:
    """The model asks for a tool; `message` is its message, as the history keeps it."""

    tool: str
    call_id: str
    message: Message


@dataclass(frozen=True, slots=True)
class Failed:
    """The backend failed: `kind` is an HTTP status, `away` or `cut`; `status` is 1 where there is none."""

    kind: str
    error: str
    status: int = 1


Answer: TypeAlias = Said | Called | Failed


@dataclass(frozen=True, slots=True)
class Request:
    """What the model is asked: the whole conversation, and the tools that it may call."""

    model: str
    messages: Sequence[Message]
    tools: Sequence[str]


Backend: TypeAlias = Callable[[Request], Answer]


def backend(env: Mapping[str, str]) -> Backend:
    """Choose the backend that the environment names; without one the simulation answers by itself."""
    url = env.get(URL_VARIABLE)
    return (lambda request: ask(url, request)) if url else (lambda request: alone(request, env.get(REPLY_VARIABLE)))


def alone(request: Request, reply: str | None) -> Answer:
    """Answer as told, else with a question on the first turn and a final result on later ones."""
    asked = sum(each["role"] == "user" for each in request.messages)
    return Said(reply if reply is not None else json.dumps(_QUESTION if asked == 1 else _FINAL))


def ask(url: str, request: Request) -> Answer:
    """Ask a backend that speaks chat completions; waits for as long as it takes."""
    import http.client  # noqa: PLC0415 - slow to import, and an engine that is asked for its version needs none

    document: dict[str, Any] = {"model": request.model, "messages": list(request.messages)}
    if request.tools:
        document["tools"] = [{"type": "function", "function": {"name": name}} for name in request.tools]
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "127.0.0.1", parts.port)
    try:
        headers = {"content-type": "application/json"}
        connection.request("POST", f"{parts.path.rstrip('/')}/v1/chat/completions", json.dumps(document), headers)
        response = connection.getresponse()
        body = response.read()
    except ConnectionRefusedError as away:
        return Failed(AWAY, f"connection refused: {away}")
    except (OSError, http.client.HTTPException) as cut:
        return Failed(CUT, f"the answer ended early: {type(cut).__name__}")
    finally:
        connection.close()
    return _read(response.status, body)


def _read(status: int, body: bytes) -> Answer:
    try:
        document = json.loads(body)
        if status >= BAD_REQUEST:
            return Failed(str(status), str(document["error"]["message"]), status)
        message = document["choices"][0]["message"]
        for call in message.get("tool_calls") or ():
            return Called(str(call["function"]["name"]), str(call["id"]), message)
        return Said(str(message["content"]))
    except (ValueError, LookupError, TypeError, AttributeError):
        error = "the answer can't be read"
        return Failed(str(status), error, status) if status >= BAD_REQUEST else Failed(CUT, error)
