"""The model of a simulated engine, and the source of its answers: a backend over HTTP, or the simulation itself."""

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, BinaryIO, Literal, NoReturn, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from turngate import EngineContract
from turngate.contract.home_and_workspace import ToolUse
from turngate.contract.launch import Stream
from turngate.sanitize import bounded
from turngate_probes.simulate.faults import NONE, Faults
from turngate_probes.simulate.printing import simulation

URL_VARIABLE = "TURNGATE_SIMULATE_URL"
REPLY_VARIABLE = "TURNGATE_SIMULATE_REPLY"
AWAY, CUT = "away", "cut"
BAD_REQUEST = 400
MAX_CALLS = 20
OFFERED = "read_file"
LONGEST_REPLY = 200
Message: TypeAlias = Mapping[str, Any]

_CHOICE = {"kind": "choose_one", "prompt": "Which colour?", "options": ["red", "blue"]}
_QUESTION = {"outcome": "ask_user", "interaction": {**_CHOICE, "required_fields": [], "context": {}}}


class Called(Struct, frozen=True):
    """The model asks for a tool; `message` is its message in the history, `changed` are other arguments, if any.

    `tokens` are those of the request, as the model counts them.
    """

    tool: str
    call_id: str
    message: Message
    changed: Message | None = None
    tokens: int = 0

    @property
    def arguments(self) -> Message:
        """The arguments of the call; empty if the message has no valid ones."""
        if self.changed is not None:
            return self.changed
        try:
            arguments = json.loads(self.message["tool_calls"][0]["function"]["arguments"])
        except (ValueError, LookupError, TypeError):
            return {}
        return arguments if isinstance(arguments, dict) else {}

    @property
    def program(self) -> str:
        """The text that the tool is given in place of arguments; empty if there is none."""
        call: Message = next(iter(self.message.get("tool_calls") or ()), {})
        return str(call["custom"]["input"]) if call.get("type") == "custom" else ""

    @property
    def text(self) -> str:
        """A short description of the call: its first argument."""
        first = next(iter(self.arguments.values()), "")
        if isinstance(first, list):
            return shlex.join(map(str, first))
        return first if isinstance(first, str) else json.dumps(first)


class Failed(Struct, frozen=True):
    """The backend failed: `kind` is an HTTP status, `away` or `cut`; `status` is 1 where there is none."""

    kind: str
    error: str
    status: int = 1


class Stopped(BaseException):
    """A signal ends the engine; `name` is the signal's."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


Answer: TypeAlias = str | Called | Failed  # the model's text, its call of a tool, or why there is none


class ModelRequest(Struct, frozen=True):
    """A request to the model: the whole conversation, the tools that it may call, and `more` members."""

    model: str
    messages: Sequence[Message]
    tools: Sequence[str]
    more: Mapping[str, Any] = {}


Backend: TypeAlias = Callable[[ModelRequest], Answer]


def backend(env: Mapping[str, str], tool: ToolUse | None = None) -> Backend:
    """Return the backend that the environment names; without one, the simulation answers by itself."""
    if url := env.get(URL_VARIABLE):
        return lambda request: ask(url, request)
    return lambda request: alone(request, env.get(REPLY_VARIABLE), tool)


def alone(request: ModelRequest, reply: str | None, tool: ToolUse | None = None) -> Answer:
    """Return the fixed answer, or run a conversation: a question, the tool if it is offered, and a final result."""
    if reply is not None:
        return reply
    last = request.messages[-1]
    if last["role"] == "tool":
        return _final(request, {"action": str(last["content"])})
    if sum(message["role"] == "user" for message in request.messages) == 1:
        return json.dumps(_QUESTION)
    return call_of(tool) if tool and tool.name in request.tools else _final(request, {})


def _final(request: ModelRequest, more: Mapping[str, str]) -> str:
    """End with the colour that the user chose in the first two paragraphs of their last message, or named instead.

    A first paragraph that ends with a colon only announces the reply.
    """
    last = next(str(message["content"]) for message in reversed(request.messages) if message["role"] == "user")
    first, *others = last.split("\n\n")[:2]
    colour = re.search(r"\b(red|blue)\b", " ".join((first, *others)))
    reply = others[0] if others and first.endswith(":") else first
    chosen = colour[0] if colour else bounded(reply.strip(), LONGEST_REPLY)
    return json.dumps({"outcome": "final", "final_data": {"colour": chosen, **more}})


def call_of(tool: ToolUse) -> Called:
    """Return a model's call of the contract's tool."""
    call_id, arguments = "call_1", json.dumps(dict(tool.arguments))
    call = {"id": call_id, "type": "function", "function": {"name": tool.name, "arguments": arguments}}
    return Called(tool.name, call_id, {"role": "assistant", "content": None, "tool_calls": [call]})


def ask(url: str, request: ModelRequest) -> Answer:
    """Send a request to a chat-completions backend, without a time limit."""
    import http.client  # noqa: PLC0415 - slow to import, and an engine that is asked for its version needs none

    document: dict[str, Any] = {**request.more, "model": request.model, "messages": list(request.messages)}
    if request.tools:
        document["tools"] = [{"type": "function", "function": {"name": name}} for name in request.tools]
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "127.0.0.1", parts.port)
    try:
        headers = {"content-type": "application/json"}
        connection.request(
            "POST", f"{parts.path.rstrip('/').removesuffix('/v1')}/v1/chat/completions", json.dumps(document), headers
        )
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
            tokens = int((document.get("usage") or {}).get("prompt_tokens", 0))
            return Called(str(call[call["type"]]["name"]), str(call["id"]), message, tokens=tokens)
        return str(message["content"])
    except (ValueError, LookupError, TypeError, AttributeError):
        error = "the answer can't be read"
        return Failed(str(status), error, status) if status >= BAD_REQUEST else Failed(CUT, error)


class EngineContext(Struct, frozen=True):
    """The engine's environment: `write` takes bytes of a stream, `hang` never returns, `clock` is epoch seconds.

    `faults_in` returns the faults of a turn, by its number from 1 (0: before the first) and its prompt; `has_input`
    waits some milliseconds for data on standard input, or its end; `in_session` gets the id and the directory of a
    session when a turn of it starts; `close` closes a stream; `on_signal` calls a function for each SIGUSR1;
    `leave` leaves a process with these variables, `stay` one that holds the streams; `crash` ends this one by a signal;
    `note` gets what a client sends otherwise than on standard input.
    """

    env: Mapping[str, str]
    cwd: str
    stdin: BinaryIO
    write: Callable[[Stream, bytes], None]
    hang: Callable[[], NoReturn]
    clock: Callable[[], float]
    backend: Backend
    faults_in: Callable[[int, str], Faults] = lambda *_: NONE
    has_input: Callable[[int], bool] = lambda _: True
    in_session: Callable[[str, str], None] = lambda *_: None
    on_signal: Callable[[Callable[[], object]], None] = lambda _: None
    leave: Callable[[Mapping[str, str]], None] = lambda _: None
    stay: Callable[[], None] = lambda: None
    crash: Callable[[], object] = lambda: None
    note: Callable[[bytes], None] = lambda _: None
    close: Callable[[Literal["stdin", "stdout"]], None] = lambda _: None


class Acted(Struct, frozen=True):
    """The result of a tool call, in words for the model; `ends` says that it ends the turn."""

    result: str
    ends: bool = False


class Model(Struct, frozen=True):
    """A model by its name, and whether the engine acts without asking (`auto`), which its requests show.

    Requests begin with the `instructions` of the workspace, and have `more` members. `retrying` gets a failure and the
    number of the retry, from 1, before a request is sent again.
    """

    contract: EngineContract
    backend: Backend
    name: str
    auto: bool
    tools: tuple[str, ...] = (OFFERED,)
    retrying: Callable[[Failed, int], None] = lambda *_: None
    instructions: str = ""
    more: Mapping[str, Any] = {}

    def ask(self, messages: list[Message], act: Callable[[Called], Acted]) -> Answer:
        """Return the model's last answer; tool calls and their results are added to `messages`.

        It is a call if the turn ended with one, or if the model never stops calling.
        """
        answer = self._answer(messages)
        for _ in range(MAX_CALLS):
            if not isinstance(answer, Called):
                break
            answer = self._plain(answer)
            acted = act(answer)
            messages += [answer.message, {"role": "tool", "tool_call_id": answer.call_id, "content": acted.result}]
            if acted.ends:
                break
            answer = self._answer(messages)
        return answer

    def _plain(self, called: Called) -> Called:
        """Return the call that the program in another call makes."""
        through = self.contract.hermetic.calls_through
        made = through.call_in(called.program) if through and called.tool == through.name else None
        return Called(made[0], called.call_id, called.message, made[1]) if made else called

    def _answer(self, messages: Sequence[Message]) -> Answer:
        """Send a request, again after a failure that the engine retries."""
        retries, request = simulation(self.contract).retries, self._request(messages)
        for attempt in count(1):
            answer = self.backend(request)
            if not isinstance(answer, Failed) or attempt > retries.get(answer.kind, 0):
                break
            self.retrying(answer, attempt)
        return answer

    def _request(self, messages: Sequence[Message]) -> ModelRequest:
        """Add the signs of the current approval mode that the contract knows to the request."""
        unasked = [tool for sign in self.contract.approval_signs for tool in sign.tools] if self.auto else []
        prompts = simulation(self.contract).system_prompt
        texts = filter(None, (prompts.get("auto" if self.auto else "interactive"), self.instructions))
        system = [{"role": "system", "content": text} for text in texts]
        return ModelRequest(self.name, [*system, *messages], [*self.tools, *unasked], self.more)
