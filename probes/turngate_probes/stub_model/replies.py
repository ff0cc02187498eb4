"""The answers of the stub backend: replies, rules that choose one, and the script of rules."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeAlias

from turngate_probes.stub_model.protocol import Json, Prompted


@dataclass(frozen=True, slots=True)
class Text:
    """The model says `text` and ends its turn."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The model asks for the tool `name` with `arguments`, whether or not it was offered."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Refuse:
    """The backend answers with the HTTP `status` and an error document in the vendor's format."""

    status: int
    message: str = "refused as scripted"


@dataclass(frozen=True, slots=True)
class Hang:
    """The backend accepts the request and sends nothing until the client leaves or the backend closes."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A valid answer starts, then the connection is closed in the middle of it."""


Reply: TypeAlias = Text | ToolCall | Refuse | Hang | Cut


@dataclass(frozen=True, slots=True)
class Rule:
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

    def fits(self, document: Json, prompted: Prompted) -> bool:
        """Return whether the request meets the conditions; `times` is the script's to count."""
        if self.after_tool_result not in (None, prompted.after_tool_result):
            return False
        if self.offers_tools not in (None, bool(prompted.tools)):
            return False
        parts = [part for part in (self.contains, self.also_contains) if part is not None]
        return all(any(part in text for text in _strings(document)) for part in parts)


class ReplyRules:
    """Rules in order of precedence, and how often each was used. Safe for threads."""

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        self._rules = tuple(rules)
        self._used = [0] * len(self._rules)
        self._lock = Lock()

    def choose(self, document: Json, prompted: Prompted) -> Reply:
        """Return the reply of the first matching rule that is not used up; without one, the model says "ok"."""
        with self._lock:
            for index, rule in enumerate(self._rules):
                if self._used[index] != rule.times and rule.fits(document, prompted):
                    self._used[index] += 1
                    return rule.reply
        return Text("ok")


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
