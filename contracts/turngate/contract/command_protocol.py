"""How an engine is driven by commands: JSON objects, one per line, which it answers with replies and events."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Struct

from turngate.contract.values import NOT_EMPTY, Match, RecordPath, Text, Texts

Template = Annotated[Mapping[str, Any], NOT_EMPTY]
SomeMatch = Annotated[Match, NOT_EMPTY]


class CommandReply(Struct, frozen=True):
    """How the engine replies to a command.

    match: Dotted path into a reply -> its required value.
    accepted: Dotted path into the reply to an accepted command -> its required value.
    error: Path of the reason in any other reply.
    """

    match: SomeMatch
    accepted: SomeMatch
    error: RecordPath


class SessionQuery(Struct, frozen=True):
    """The command that asks for the session id, sent at the start and after each turn.

    session_id: Path of the session id in the reply.
    """

    command: Template
    session_id: RecordPath


class EngineQuestion(Struct, frozen=True):
    """How the engine asks its client, and how the client answers.

    match: Dotted path into a question -> its required value.
    kind: Path of the question's kind. `permission_requests` lists the kinds that ask for permission.
    title: Path of the text that names the action.
    shown: Members of the question that describe the action.
    answer: Members of every answer, which also gets the question's id.
    allow: Members of an answer that allows this one action.
    deny: Members of an answer that refuses it.
    refuse: Members of the answer to every other question.
    """

    match: SomeMatch
    kind: RecordPath
    title: RecordPath
    shown: Texts
    answer: Template
    allow: Template
    deny: Template
    refuse: Template


class JsonCommands(Struct, frozen=True):
    """The commands, replies and events of the transport json_commands. Events are the records of a headless turn.

    id: The member with the id of a command or question, which its reply or answer repeats.
    prompt: The command that starts a turn. A text that is only {text} is replaced by the prompt.
    abort: The command that stops a running turn, sent before the process is ended during one.
    ended: Dotted path into the event after which the engine does nothing more in a turn -> its required value.
    """

    id: Text
    reply: CommandReply
    session: SessionQuery
    prompt: Template
    abort: Template
    ended: SomeMatch
    questions: EngineQuestion | None = None
