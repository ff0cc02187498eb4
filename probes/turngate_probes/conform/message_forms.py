"""Which messages of a process for several turns are prompts, name its session, or end a turn, in any protocol."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from turngate import EngineContract
from turngate.contract.simulated_protocols import ServiceSimulation
from turngate.decoding import decode
from turngate.turn.records import value_at
from turngate_probes.simulate.printing import simulation

Message: TypeAlias = dict[str, Any]
# dotted path -> the value there, in which {handle}, {text} and {id} stand for what differs
Form: TypeAlias = Mapping[str, Any]
_BREAK = re.compile(rb"Content-Length: \d+\r?\n\r?\n|\r?\n")
_SLOT = re.compile(r"\\\{(\w+)\\\}")
_ID: Form = {"id": "{id}"}


class Slots(Struct, frozen=True):
    """What a message has in place of the slots of a form; None: the form has no such slot."""

    handle: str | None = None
    text: str | None = None
    id: object = None

    def is_in(self, other: "Slots") -> bool:
        """Whether each of them is the same in another message."""
        return self.handle in (None, other.handle) and self.text in (None, other.text) and self.id in (None, other.id)


class MessageForms(Struct, frozen=True):
    """The forms of the messages that tell what a process for several turns was asked.

    prompts: Of those with which its client starts a turn.
    told: Of those with the id of its session, if it has only one, or of that which a prompt has opened.
    ended: Of those that end a turn without a failure. None: they can't be seen.
    holds: Whether it keeps a session in its memory from the first turn on, until it ends.
    """

    prompts: tuple[Form, ...] = ()
    told: Form | None = None
    ended: Form | None = None
    holds: bool = True


_ACP = MessageForms(
    ({"method": "session/prompt", "params.sessionId": "{handle}", "params.prompt": "{text}"},),
    ended={**_ID, "result.stopReason": "end_turn"},
)
_APP_SERVER = MessageForms(
    ({"method": "turn/start", "params.threadId": "{handle}", "params.input": "{text}"},),
    ended={"method": "turn/completed", "params.threadId": "{handle}", "params.turn.status": "completed"},
)


def forms(contract: EngineContract, transport: str) -> MessageForms:
    """Return the forms of a transport's messages."""
    sticky, service, place = contract.sticky, simulation(contract).sticky.service, contract.handle
    if transport == "service" and service:
        return _of_service(service)
    if transport == "json_commands" and (commands := sticky.commands):
        told = {**commands.reply.match, commands.session.session_id: "{handle}"}
        return MessageForms((dict(_flat(commands.prompt)),), told, commands.ended)
    if transport == "stream_json":
        told = {**(place.match or {}), place.field or "": "{handle}"}
        return MessageForms(({"type": "user", "message.content": "{text}"},), told, contract.end.match)
    return {"acp": _ACP, "app_server": _APP_SERVER}.get(transport, MessageForms())


def _of_service(service: ServiceSimulation) -> MessageForms:
    """Return the forms of a service's messages; on lines, the answer to a prompt names its session."""
    turns = [request for request in service.requests if request.does in ("prompts", "starts")]
    prompts = tuple(
        {
            "method": request.name,
            **{f"params.{path}": value for path, value in request.match.items()},
            **{
                f"params.{path}": slot
                for path, slot in ((request.handle, "{handle}"), (request.prompt, "{text}"))
                if path
            },
        }
        for request in turns
    )
    if service.wire != "lines":
        return MessageForms(prompts, holds=False)
    named = (path for request in turns for path, value in _flat(request.answer) if value == "{handle}")
    told: Form = {**_ID, **{f"result.{path}": "{handle}" for path in islice(named, 1)}}
    return MessageForms(prompts, told, {**told, "result.isError": None}, holds=False)


def _flat(template: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of a command by their paths; a list holds the prompt."""
    for key, value in template.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", "{text}" if isinstance(value, list) else value


def read(form: Form, message: Message) -> Slots | None:
    """Return what a message has in place of the slots of a form; None if it has another form."""
    found = Slots()
    for path, wanted in form.items():
        value = value_at(message, path)
        if wanted == "{text}":
            found = replace(found, text="\n".join(strings(value)))
        elif wanted == "{id}" and value is not None:
            found = replace(found, id=value)
        elif isinstance(wanted, str) and isinstance(value, str):
            if (match := re.fullmatch(_SLOT.sub(r"(?P<\1>[^/ ]+)", re.escape(wanted)), value)) is None:
                return None
            found = replace(found, handle=match.groupdict().get("handle", found.handle))
        elif value != wanted:
            return None
    return found


def messages(data: bytes) -> Iterator[tuple[int, Message]]:
    """Yield the messages in what travelled, each with its end: lines of JSON, or JSON after headers."""
    start = 0
    for separator in (*_BREAK.finditer(data), None):
        end = separator.start() if separator else len(data)
        with suppress(msgspec.DecodeError):
            yield end, decode(data[start:end].decode("utf-8", "replace"), Message)
        start = separator.end() if separator else end


def strings(value: object) -> Iterator[str]:
    """Yield every string in a value."""
    values = [value]
    while values:
        value = values.pop(0)
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict | list):
            values[:0] = value.values() if isinstance(value, dict) else value
