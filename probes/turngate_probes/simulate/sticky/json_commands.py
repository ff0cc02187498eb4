"""Commands as JSON objects from the engine's side, answered by replies and the records of a headless turn."""

from collections.abc import Iterable, Mapping
from typing import Any, Never

from turngate import UsageError
from turngate.contract.command_protocol import EngineQuestion, JsonCommands
from turngate.contract.launch import OneTime
from turngate.contract.simulation import Line
from turngate.turn.records import matches, value_at
from turngate_probes.simulate.backend import Called, Failed
from turngate_probes.simulate.printing import Slots, chosen, fill, fill_all, rendered
from turngate_probes.simulate.sticky.engine import BUSY, StickyEngine
from turngate_probes.simulate.sticky.message_queue import Message
from turngate_probes.simulate.sticky.paths import put_at

_PROMPT = "{text}"


class SimulatedJsonCommands(StickyEngine):
    """An engine that reads commands and prints replies and events; it has no modes."""

    mode = None
    _facts: tuple[str, ...] = ()

    def serve(self) -> Never:
        """Continue the session that the arguments name, and run commands until the process ends."""
        handle = self.start.resume
        if handle is not None and self.load(handle) is None:
            self._open_unknown(handle)
        super().serve()

    def _open_unknown(self, handle: str) -> None:
        """Refuse an unknown session, or start one under its id, as a headless turn does."""
        lost = self.simulation.nonexistent_id
        if lost is None:
            self.open(handle=handle)
            return
        slots = {"handle": handle, "cwd": self.world.cwd, "error": ""}
        for stream, data in rendered(self.contract, lost.lines, ("dead",), slots):
            self.world.write(stream, data)
        raise SystemExit(lost.exit_code)

    def hear(self, message: Message) -> None:
        """Run a command; an answer to a question that nobody asked is ignored."""
        commands, questions = self._commands, self._commands.questions
        if questions and matches(message, _constants(questions.answer)):
            return
        if matches(message, _constants(commands.prompt)):
            self.begin(_text_in(commands.prompt, message))
            if self.faults.refuses_prompt:
                self._reply({}, {commands.reply.error: BUSY}, accepted=False)
                return
            self._reply(message)
            self._run(_text_in(commands.prompt, message))
        elif matches(message, _constants(commands.session.command)):
            self._reply(message, {commands.session.session_id: self.session.handle})
        elif matches(message, _constants(commands.abort)):
            self._reply(message)
        else:
            self._reply(message, {commands.reply.error: "unknown command"}, accepted=False)

    def stops(self, message: Message) -> bool:
        """Whether a message stops the turn, which is confirmed."""
        stops = matches(message, _constants(self._commands.abort))
        if stops:
            self._reply(message)
        return stops

    def tell_action(self, call: Called, *, done: bool | None, result: str = "") -> None:  # noqa: ARG002
        """Report the use of a tool, as a headless turn does."""
        if done is not None:
            slots = {"tool": call.tool, "call_id": call.call_id, "arguments": call.arguments, "subject": call.text}
            self._print(self.simulation.called, slots, "done" if done else "refused")

    def tell_retry(self, failed: Failed, attempt: int) -> None:
        """Report that a request is sent again, as a headless turn does."""
        self._failed(self.simulation.retrying, failed, attempt)
        self._facts = (*self._facts, "retried")

    def permission_request(self, kind: str, call: Called, once: OneTime) -> tuple[object, Message]:  # noqa: ARG002
        """Return a question with a new id."""
        questions, number = self._questions, fill("{uuid}", {})
        about = dict.fromkeys(questions.shown, call.text) | {questions.title: call.tool}
        return number, _document({**questions.match, self._commands.id: number, questions.kind: kind, **about})

    def unknown_request(self) -> tuple[object, Message]:
        """Return a question of an unknown kind, with a new id."""
        questions, number = self._questions, fill("{uuid}", {})
        return number, _document({**questions.match, self._commands.id: number, questions.kind: "turngate_unknown"})

    def answered(self, message: Message) -> object:
        """Return the id of the question that a message answers."""
        is_answer = matches(message, _constants(self._questions.answer))
        return message.get(self._commands.id) if is_answer else None

    def is_granted(self, answer: Message, once: OneTime) -> bool:  # noqa: ARG002 - the contract has the answers
        """Whether the client allows the action."""
        return matches(answer, _constants(self._questions.allow))

    @property
    def _commands(self) -> JsonCommands:
        if self.contract.sticky.commands is None:
            raise UsageError(f"{self.contract.engine} has no commands", "its contract defines none")
        return self.contract.sticky.commands

    @property
    def _questions(self) -> EngineQuestion:
        if self._commands.questions is None:
            raise UsageError(f"{self.contract.engine} asks nothing", "its contract defines no questions")
        return self._commands.questions

    def _reply(self, message: Message, more: Message | None = None, *, accepted: bool = True) -> None:
        reply, name = self._commands.reply, self._commands.id
        outcome = reply.accepted if accepted else self.simulation.sticky.refused
        reported = {name: message[name]} if name in message else {}
        self.client.write(_document({**reported, **reply.match, **outcome, **(more or {})}))

    def _run(self, prompt: str) -> None:
        self._facts = ("resume" if self.session.messages else "start",)
        self._print(self.simulation.started, {"prompt": prompt})
        end = self.turn(prompt)
        if end is None:
            self._print(self.simulation.failed.lines, {"text": "", "error": "Request was aborted", "status": 1})
        elif isinstance(end, Failed):
            self._failed(self.simulation.failed.lines, end)
        else:
            self._print(self.simulation.answered, {"text": end, "error": "", "status": 0})
        self.turn_told()

    def _failed(self, lines: Iterable[Line], failed: Failed, attempt: int = 0) -> None:
        slots = {"text": "", "error": failed.error, "status": failed.status, "attempt": attempt}
        self._print(lines, slots, failed.kind)

    def _print(self, lines: Iterable[Line], slots: Slots, fact: str = "") -> None:
        """Print the records of a headless turn, except the one with the session id, which belongs to its start."""
        place = self.contract.handle
        known: Slots = {
            "handle": self.session.handle,
            "model": self.model,
            "turn": 1,
            "prompt": "",
            "cwd": self.session.cwd,
        }
        for line in chosen(lines, (fact, *self._facts)):
            record = line.stdout
            if isinstance(record, Mapping) and not (place.match and matches(dict(record), place.match)):
                self.client.write(fill_all(record, {**known, **slots}))


def _constants(template: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Return the fixed values of a command by their paths, without the prompt."""
    values: dict[str, Any] = {}
    for key, value in template.items():
        if isinstance(value, Mapping):
            values |= _constants(value, f"{path}{key}.")
        elif value != _PROMPT and not isinstance(value, list):
            values[f"{path}{key}"] = value
    return values


def _text_in(template: Any, message: Any) -> str:
    """Return what a command has in place of the prompt."""
    if template == _PROMPT:
        return str(message)
    if isinstance(template, Mapping):
        parts = [(part, value_at(message, key)) for key, part in template.items()]
    elif isinstance(template, list) and isinstance(message, list):
        parts = list(zip(template, message, strict=False))
    else:
        parts = []
    return "".join(_text_in(part, value) for part, value in parts if value is not None)


def _document(values: Mapping[str, Any]) -> Message:
    """Return an object with these values at their paths."""
    document: Message = {}
    for path, value in values.items():
        put_at(document, path, value)
    return document
