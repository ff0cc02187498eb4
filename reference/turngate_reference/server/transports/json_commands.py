"""Speaks `json_commands`: commands as JSON objects in, replies and headless events out, as the contract says."""

import asyncio
from collections.abc import Mapping
from typing import Any

from turngate import Mode, TurnReader
from turngate.contract.command_protocol import EngineQuestion
from turngate.contract.launch import OneTime
from turngate.turn.records import matches, value_at
from turngate_reference.server.transports.engine_process import EngineProcess, TransportError
from turngate_reference.server.transports.events import Listener
from turngate_reference.server.transports.transport import Ask, Message, Transport


class JsonCommandsTransport(Transport):
    """Speaks `json_commands`."""

    def __init__(self, process: EngineProcess, ask: Ask, tell: Listener) -> None:
        super().__init__(process, ask, tell)
        if self.sticky.commands is None:
            raise TransportError("the contract defines no commands")
        self._commands = self.sticky.commands
        self._reader: TurnReader | None = None
        self._ended: asyncio.Future[None] | None = None
        self._open: set[str] = set()

    async def open(self) -> None:
        """Ask for the session."""
        self.session_id = await self._session()

    async def turn(self, text: str) -> tuple[str | None, str | None]:
        """Send the prompt, and read until the event that ends the turn; if cancelled, stop the turn."""
        contract = self.request.contract
        self._reader = reader = TurnReader(contract, Mode.AUTO, needs_handle=False, on_text=self.say)
        self._ended = asyncio.get_running_loop().create_future()
        try:
            await self._command(filled(self._commands.prompt, text))
            await self._ended
        except TransportError as refused:
            return None, str(refused)
        except asyncio.CancelledError:
            if not self.process.lost.done():
                self.send(dict(self._commands.abort))
            raise
        finally:
            self._reader = None
        reading, session = reader.finish(0), await self._session()
        for one in reading.reported:
            self.report(one.kind, one.text)
        if session != self.session_id:
            return None, self.left_for(session)
        unproved = None if reading.ended else "it did not report a successful end of the turn"
        return reading.final_text, reading.failures[0] if reading.failures else unproved

    def on_message(self, message: Message, line: bytes) -> None:
        """Take a reply, a question or an event of the turn."""
        commands, questions = self._commands, self._commands.questions
        if matches(message, commands.reply.match):
            self.answered(self._reply_to(message), message)
        elif questions and matches(message, questions.match):
            self._answer_question(questions, message)
        elif self._reader is not None:
            self._reader.feed("stdout", line + b"\n")
            if matches(message, commands.ended) and self._ended and not self._ended.done():
                self._reader = None  # what follows in the same chunk belongs to no turn of ours
                self._ended.set_result(None)

    async def on_permission(self, params: Message, once: OneTime) -> Message | None:
        """Ask for one of the two decisions."""
        questions = self._commands.questions
        if questions is None:
            return None
        answers = {once.allow: dict(questions.allow), once.deny: dict(questions.deny)}
        subject = str(value_at(params, questions.title) or "")
        return await self.permission(subject, answers, [once.allow], params, questions.shown)

    async def _session(self) -> str:
        query = self._commands.session
        session = value_at(await self._command(query.command), query.session_id)
        if not isinstance(session, str):
            raise TransportError(f"its session has no id in {query.session_id}")
        return session

    async def _command(self, command: Mapping[str, Any]) -> Message:
        """Return the reply to a command; TransportError with the reason if it is not accepted."""
        name, reply = f"turngate-{next(self.numbers)}", self._commands.reply
        self._open.add(name)
        try:
            answer = await self.exchange(name, {self._commands.id: name, **command})
        finally:
            self._open.discard(name)
        if not matches(answer, reply.accepted):
            raise TransportError(f"{next(iter(command.values()))}: {value_at(answer, reply.error)}")
        return answer

    def _reply_to(self, message: Message) -> object:
        """Return the id of the command that a reply answers; one without an id answers the only open command."""
        name = message.get(self._commands.id)
        return next(iter(self._open)) if name is None and len(self._open) == 1 else name

    def _answer_question(self, questions: EngineQuestion, message: Message) -> None:
        name = {self._commands.id: message.get(self._commands.id)}

        def reply(answer: Message | None) -> None:
            self.send({**questions.answer, **name, **(questions.refuse if answer is None else answer)})

        self.answer(value_at(message, questions.kind), message, reply)


def filled(template: Any, text: str) -> Any:
    """Return a template with the prompt in place of each text that is only {text}."""
    if isinstance(template, Mapping):
        return {key: filled(value, text) for key, value in template.items()}
    if isinstance(template, list | tuple):
        return [filled(value, text) for value in template]
    return text if template == "{text}" else template
