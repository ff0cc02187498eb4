"""What the wire protocols share: reading a request, the formats of an answer, and the script that chooses one."""

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, TypeAlias

from msgspec import Struct, field

from turngate_probes.stub_model.schemas import least_instance

TOKENS = 10  # of any request, unless the script says otherwise
OUTPUT_TOKENS = 2
Json: TypeAlias = Mapping[str, Any]
Event: TypeAlias = tuple[str | None, Json | str]  # an event of a stream: its name, if it has one, and its data


class ToolIds(Struct, frozen=True):
    """The ids of the tool calls in a message, and of the calls whose results are in it."""

    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()


class ModelPrompt(Struct, frozen=True):
    """The parts of a request that rules and journal use.

    Attributes:
        user_texts: the text parts of the user's messages, in order.
        tools: the names of the tools that the model was offered; the type of those that have no name. A tool that
            takes a program is followed by the tools that its description declares for it.
        after_tool_result: a tool's result follows the last message of the model.
        unpaired: the calls of tools that have no result, and the results that no call asks for, or that came before.
    """

    user_texts: tuple[str, ...]
    tools: tuple[str, ...]
    after_tool_result: bool
    unpaired: ToolIds = ToolIds()


class ModelAnswer(Struct, frozen=True):
    """What the model answers: a text, or a call of `tool` with `arguments`, or with `program`, which is a text.

    `tokens` are those of the request, as the model counts them.
    """

    model: str
    text: str = ""
    tool: str | None = None
    arguments: Json = field(default_factory=dict)
    tokens: int = TOKENS
    program: str | None = None

    @property
    def arguments_json(self) -> str:
        """The arguments as the JSON text that most vendors put on the wire."""
        return json.dumps(self.arguments)

    @property
    def pieces(self) -> tuple[str, ...]:
        """The text in two pieces, so that a stream has a middle; a shorter text in one."""
        half = len(self.text) // 2
        return (self.text[:half], self.text[half:]) if half else (self.text,)


def new_id(prefix: str) -> str:
    """Return a new identifier."""
    return prefix + uuid.uuid4().hex[:24]


def encode(event: Event) -> bytes:
    """Return a server-sent event as bytes."""
    name, data = event
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


def objects(value: object) -> tuple[Json, ...]:
    """Return the objects in a JSON array; none if it is something else."""
    return tuple(item for item in value if isinstance(item, dict)) if isinstance(value, list) else ()


def texts(content: object) -> tuple[str, ...]:
    """Return the texts of a message's content: a string, or parts of which some have a `text`."""
    if isinstance(content, str):
        return (content,)
    return tuple(item["text"] for item in objects(content) if isinstance(item.get("text"), str))


def ids_at(key: str, parts: Iterable[Json]) -> tuple[str, ...]:
    """Return the texts under a key of the parts that have one."""
    return tuple(part[key] for part in parts if isinstance(part.get(key), str))


def name_of(tool: Json) -> tuple[str, ...]:
    """Return the name of a tool, else its type; empty if it has neither."""
    name = tool.get("name") or tool.get("type")
    return (name,) if isinstance(name, str) else ()


class WireProtocol(Struct, frozen=True):
    """A vendor's protocol: reads a request's document, and formats answers and refusals.

    Attributes:
        name: its name in the journal.
        tool_ids: those of a message.
        kind: whether a message is what the "model" said, a tool's "result", or None: anything else.
        whole: the answer to a request that is not streamed.
        events: the answer to a streamed request, with the request for its options; two events or more.
        refusal: the document of an HTTP error status with a message.
        model: describes a model of that name.
        models: a list of one model so described.
        names: those of a tool.
        messages: the key of the conversation in a request; a plain string is a message of the user.
        content: the key of a message's text.
        role: the role of messages without one.
        schema: the JSON schema that the answer to a request must fit; None if it may be any text or a call.
    """

    name: str
    kind: Callable[[Json], str | None]
    tool_ids: Callable[[Json], ToolIds]
    whole: Callable[[ModelAnswer], Json]
    events: Callable[[ModelAnswer, Json], Iterable[Event]]
    refusal: Callable[[int, str], Json]
    model: Callable[[str], Json]
    models: Callable[[Json], Json]
    names: Callable[[Json], Iterable[str]] = name_of
    messages: str = "messages"
    content: str = "content"
    role: str | None = None
    schema: Callable[[Json], Json | None] = lambda _request: None

    def read(self, document: Json) -> ModelPrompt:
        """Return the prompt of a request, without unknown parts."""
        given = document.get(self.messages)
        user_texts, waiting, offered = list[str](), False, objects(document.get("tools"))
        calls, results = list[str](), list[str]()
        for message in ({"role": "user", self.content: given},) if isinstance(given, str) else objects(given):
            if message.get("role", self.role) == "user":
                user_texts += texts(message.get(self.content))
            ids = self.tool_ids(message)
            for result in ids.results:  # of calls with equal ids, each takes a result
                (calls.remove if result in calls else results.append)(result)
            calls += ids.calls
            answer = self.kind(message)
            waiting = answer == "result" or (waiting and answer != "model")
            offered = objects(message.get("tools")) or offered
        tools = tuple(dict.fromkeys(name for tool in offered for name in self.names(tool)))
        return ModelPrompt(tuple(user_texts), tools, waiting, ToolIds(tuple(calls), tuple(results)))


class Text(Struct, frozen=True):
    """The model says `text` and ends its turn. It counts so many `tokens` in the request."""

    text: str
    tokens: int = TOKENS


class Summary(Text, frozen=True):
    """The model summarizes the conversation in `text`, as an engine asks it to that compacts one."""


class Structured(Text, frozen=True):
    """The model says JSON that fits the request's schema."""


class ToolCall(Struct, frozen=True):
    """The model asks for the tool `name` with `arguments`, whether or not it was offered.

    It does so in the `program` of the tool `through`, if there is one. It counts so many `tokens` in the request.
    """

    name: str
    arguments: Mapping[str, Any]
    tokens: int = TOKENS
    through: str | None = None
    program: str | None = None


class Refuse(Struct, frozen=True):
    """The backend answers with the HTTP `status` and an error document in the vendor's format.

    `alone`: it refuses only the conversation, and not what an engine asks beside it in a JSON schema.
    """

    status: int
    message: str = "refused as scripted"
    alone: bool = False


class Hang(Struct, frozen=True):
    """The backend accepts the request and sends nothing until the client leaves or the backend closes."""


class Cut(Struct, frozen=True):
    """A valid answer starts, then the connection is closed in the middle of it."""


Reply: TypeAlias = Text | ToolCall | Refuse | Hang | Cut


class StubRule(Struct, frozen=True):
    """A reply and its requests: those that meet every given condition.

    Attributes:
        reply: the answer.
        contains: a part of any string in the request's document: prompt, history or instructions.
        also_contains: another such part.
        after_tool_result: whether the conversation ends with a tool's result that the model has not answered.
        offers_tools: whether the model may call a tool, which it may not where an engine asks for a title.
        times: how many requests the rule answers at most.
    """

    reply: Reply
    contains: str | None = None
    also_contains: str | None = None
    after_tool_result: bool | None = None
    offers_tools: bool | None = None
    times: int | None = None

    def fits(self, document: Json, prompted: ModelPrompt) -> bool:
        """Return whether the request meets the conditions; `times` is the script's to count."""
        if self.after_tool_result not in (None, prompted.after_tool_result):
            return False
        if self.offers_tools not in (None, bool(prompted.tools) and not is_forced(document.get("tool_choice"))):
            return False
        parts = [part for part in (self.contains, self.also_contains) if part is not None]
        return all(any(part in text for text in _strings(document)) for part in parts)


def is_forced(choice: object) -> bool:
    """Whether the model must call a certain tool, as for a title in a given form."""
    return isinstance(choice, dict) and choice.get("type") in ("function", "tool")


class ReplyRules:
    """Rules in order of precedence, and how often each was used. Safe for threads."""

    def __init__(self, rules: Sequence[StubRule] = ()) -> None:
        self._rules = (*rules, StubRule(Text("ok")))
        self._used = [0] * len(self._rules)
        self._lock = Lock()

    def choose(self, document: Json, prompted: ModelPrompt, schema: Json | None = None) -> Reply:
        """Return the reply of the first matching rule that is not used up; without one, the model says "ok".

        With the schema that an answer must fit, the model says JSON that does, unless the rule refuses every request.
        """
        with self._lock:
            index, rule = self._first(document, prompted)
            if schema is not None and (not isinstance(rule.reply, Refuse) or rule.reply.alone):
                return Structured(json.dumps(least_instance(schema)))
            self._used[index] += 1
            return rule.reply

    def _first(self, document: Json, prompted: ModelPrompt) -> tuple[int, StubRule]:
        return next(
            (index, rule)
            for index, rule in enumerate(self._rules)
            if self._used[index] != rule.times and rule.fits(document, prompted)
        )


def _strings(value: object) -> Iterator[str]:
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
