"""Speaks `stream_json`: messages as JSON objects in, headless events out, control requests in both directions."""

import asyncio
from collections.abc import Mapping

import orjson
from msgspec.structs import replace

from turngate.contract.structs import EngineContract, Framed
from turngate.model import Mode
from turngate.turn.framing import framer
from turngate.turn.read import TurnReader
from turngate.turn.records import matches
from turngate_reference.server.sticky.transport import (
    Message,
    Transport,
    TransportContext,
    TransportError,
    TurnEnd,
    confirm,
)


class StreamJsonTransport(Transport):
    """Speaks `stream_json`."""

    def __init__(self, context: TransportContext) -> None:
        super().__init__(context)
        self._contract = _as_events(context.request.contract)
        self._records = framer(self._contract.streams.stdout)
        self._reader: TurnReader | None = None
        self._ended: asyncio.Future[None] | None = None
        self._asked = 0
        self._answers: dict[str, asyncio.Future[Message]] = {}
        self._asking: set[asyncio.Task[None]] = set()
        self.pipes.on_line = self._line

    async def open(self) -> None:
        """Set the mode; the answer must confirm it."""
        if (mode := self.permission_mode.mode) is not None:
            answer = await self._control({"subtype": "set_permission_mode", "mode": mode})
            confirm("mode", mode, answer.get("mode"))

    async def turn(self, text: str) -> TurnEnd:
        """Write the prompt, and read until the contract's end of turn or a failure that the engine tells."""
        self._records = framer(self._contract.streams.stdout)
        self._reader = reader = TurnReader(self._contract, Mode.AUTO, on_text=self.say)
        self._ended = asyncio.get_running_loop().create_future()
        self._send("user", message={"role": "user", "content": text})
        await self._ended
        self._reader = None
        reading = reader.finish(0)
        if reading.session and self.session_id is None:
            self.session_id = reading.session.handle_value
        others = {sighting.value for sighting in reading.handle.sightings} - {self.session_id}
        if self.session_id is not None and others:
            return TurnEnd(None, self.left_for(others.pop()))
        failure = reading.failures[0] if reading.failures else None if reading.ended else "nothing proves that it ended"
        return TurnEnd(reading.final_text, failure)

    async def close(self) -> None:
        """Drop what is being asked."""
        for task in self._asking:
            task.cancel()

    def _send(self, kind: str, **members: object) -> None:
        self.pipes.send(orjson.dumps({"type": kind, **members}))

    def _line(self, line: bytes) -> None:
        try:
            message = orjson.loads(line)
        except orjson.JSONDecodeError:
            message = None
        kind = message.get("type") if isinstance(message, dict) else None
        if kind == "control_request":
            task = asyncio.get_running_loop().create_task(self._answer(message))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
        elif kind == "control_response":
            response = message.get("response") or {}
            waiting = self._answers.pop(str(response.get("request_id")), None)
            if waiting and not waiting.done():
                waiting.set_result(response)
        elif self._reader is not None:
            self._reader.feed("stdout", line + b"\n")
            if self._ends_turn(line + b"\n") and self._ended and not self._ended.done():
                self._ended.set_result(None)

    def _ends_turn(self, line: bytes) -> bool:
        """Take a line; return whether it has the event that ends a turn, well or badly."""
        failures = (sign.match for sign in self._contract.failures if sign.stream == "stdout" and sign.match)
        signs = (self._contract.end.match, *failures)
        return any(matches(record, sign) for record in self._records.feed(line) for sign in signs)

    async def _control(self, request: Mapping[str, str]) -> Message:
        self._asked += 1
        name = f"turngate-{self._asked}"
        self._answers[name] = answered = asyncio.get_running_loop().create_future()
        self._send("control_request", request_id=name, request=request)
        answer = await answered
        if answer.get("subtype") != "success":
            raise TransportError(f"{request['subtype']}: {answer.get('error')}")
        response = answer.get("response")
        return response if isinstance(response, dict) else {}

    async def _answer(self, message: Message) -> None:
        """Answer a request of the engine: by the user's choice if it asks for permission, else with an error."""
        request, once = message.get("request") or {}, self.sticky.one_time
        answer: Message = {"request_id": message.get("request_id")}
        if request.get("subtype") in self.sticky.permission_requests and once:
            answers: dict[str, Message] = {
                once.allow: {"behavior": once.allow, "updatedInput": request.get("input") or {}},
                once.deny: {"behavior": once.deny, "message": "the user refused"},
            }
            subject = f"{request.get('tool_name') or ''} {request.get('description') or ''}"
            chosen = await self.permission(
                subject, answers, [once.allow], request, ("tool_name", "description", "input")
            )
            answer |= {"subtype": "success", "response": chosen or answers[once.deny]}
        else:
            answer |= {"subtype": "error", "error": f"{request.get('subtype')} is not supported"}
        self._send("control_response", response=answer)


def _as_events(contract: EngineContract) -> EngineContract:
    """Read the records of the headless document as events, of which each has a line; they name the session."""
    streams = replace(contract.streams, stdout=Framed("ndjson"))
    return replace(contract, streams=streams, handle=replace(contract.handle, record="first", match=None))
