"""Speaks `stream_json`: messages as JSON objects in, headless events out, control requests in both directions."""

import asyncio
from collections.abc import Mapping

from msgspec.structs import replace

from turngate import EngineContract, Mode, TurnReader
from turngate.contract.engine_contract import Framed
from turngate.contract.launch import OneTime
from turngate.messages import (
    ControlAnswer,
    ControlRequest,
    ControlResponse,
    ToolDecision,
    UserContent,
    UserMessage,
    sent,
)
from turngate.turn.framing import framer
from turngate.turn.records import matches
from turngate_reference.server.transports.engine_process import EngineProcess, TransportError
from turngate_reference.server.transports.events import Listener
from turngate_reference.server.transports.transport import Ask, Message, Transport, confirm, mapping

_SHOWN = ("tool_name", "description", "input")
_ANSWER = "assistant"  # what the model says, in any turn


class StreamJsonTransport(Transport):
    """Speaks `stream_json`."""

    def __init__(self, process: EngineProcess, ask: Ask, tell: Listener) -> None:
        super().__init__(process, ask, tell)
        self._contract = _as_events(self.request.contract)
        self._records = framer(self._contract.streams.stdout)
        self._reader: TurnReader | None = None
        self._ended: asyncio.Future[None] | None = None

    async def open(self) -> None:
        """Set the mode; the answer must confirm it."""
        if (mode := self.approval.mode) is not None:
            answer = await self._control({"subtype": "set_permission_mode", "mode": mode})
            confirm("mode", mode, answer.get("mode"))

    async def turn(self, text: str) -> tuple[str | None, str | None]:
        """Write the prompt, and read until the contract's end of turn or a failure that the engine reports."""
        self._records = framer(self._contract.streams.stdout)
        self._reader = reader = TurnReader(self._contract, Mode.AUTO, on_text=self.say)
        self._ended = asyncio.get_running_loop().create_future()
        self.send(sent(UserMessage(UserContent(content=text))))
        await self._ended
        reading = reader.finish(0)
        for one in reading.reported:
            self.report(one.kind, one.text)
        if reading.session and self.session_id is None:
            self.session_id = reading.session.handle_value
        others = {occurrence.value for occurrence in reading.handle.occurrences} - {self.session_id}
        if self.session_id is not None and others:
            return None, self.left_for(others.pop())
        unproved = None if reading.ended else "it did not report the end of the turn"
        return reading.final_text, reading.failures[0] if reading.failures else unproved

    def on_message(self, message: Message, line: bytes) -> None:
        """Take a control request, the answer to one, or an event of the turn."""
        kind = message.get("type")
        if kind == "control_request":
            self._answer_control(message)
        elif kind == "control_response":
            response = mapping(message.get("response"))
            self.answered(str(response.get("request_id")), response)
        elif self._reader is not None:
            self._reader.feed("stdout", line + b"\n")
            if self._ends_turn(line + b"\n") and self._ended and not self._ended.done():
                self._reader = None  # what follows in the same chunk belongs to no turn of ours
                self._ended.set_result(None)
        elif kind == _ANSWER:
            self.begins_own_turn()

    async def on_permission(self, params: Message, once: OneTime) -> Message | None:
        """Ask for one of the two decisions; a request that is refused without a choice is denied."""
        answers = {
            once.allow: sent(ToolDecision(once.allow, updated_input=params.get("input") or {})),
            once.deny: sent(ToolDecision(once.deny, message="the user declined")),
        }
        subject = f"{params.get('tool_name') or ''} {params.get('description') or ''}"
        asked = self.permission(subject, answers, [once.allow], params, _SHOWN, params.get("tool_name"))
        return await asked or answers[once.deny]

    def _ends_turn(self, line: bytes) -> bool:
        """Take a line; return whether it has the event that ends a turn, well or badly."""
        failures = (sign.match for sign in self._contract.failures if sign.stream == "stdout" and sign.match)
        signs = (self._contract.end.match, *failures)
        return any(matches(record, sign) for record in self._records.feed(line) for sign in signs)

    async def _control(self, request: Mapping[str, str]) -> Message:
        name = f"turngate-{next(self.numbers)}"
        answer = await self.exchange(name, sent(ControlRequest(name, request)))
        if answer.get("subtype") != "success":
            raise TransportError(f"{request['subtype']}: {answer.get('error')}")
        return mapping(answer.get("response"))

    def _answer_control(self, message: Message) -> None:
        request, request_id = mapping(message.get("request")), message.get("request_id")
        kind = request.get("subtype")

        def reply(answer: Message | None) -> None:
            refused = ControlAnswer(request_id, "error", error=f"{kind} is not supported")
            response = refused if answer is None else ControlAnswer(request_id, "success", response=answer)
            self.send(sent(ControlResponse(response)))

        self.answer(kind, request, reply)


def _as_events(contract: EngineContract) -> EngineContract:
    """Read the records of the headless document as events, one per line; they name the session."""
    streams = replace(contract.streams, stdout=Framed("ndjson"))
    lines = (mode.reports for mode in contract.outputs if mode.streams.stdout.framing == "ndjson")
    reports = next(lines, contract.reports)
    handle = replace(contract.handle, record="first", match=None)
    return replace(contract, streams=streams, handle=handle, reports=reports)
