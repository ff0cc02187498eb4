"""Speaks `stream_json`: messages as JSON objects in, headless events out, control requests in both directions."""

import asyncio
from typing import Any

import orjson
from msgspec.structs import replace

from turngate.contract.structs import EngineContract, Framed
from turngate.model import Mode
from turngate.turn.framing import framer
from turngate.turn.read import TurnReader
from turngate.turn.records import Record, matches
from turngate_reference.server.sticky.transport import Permission, TransportContext, TransportError, TurnEnd


class StdioStreamJson:
    """A `Speaker` of `stream_json`."""

    def __init__(self, around: TransportContext) -> None:
        self.session_id: str | None = None
        self._around = around
        self._contract = _as_events(around.contract)
        self._reader: TurnReader | None = None
        self._ends = _EndOfTurn(self._contract)
        self._ended: asyncio.Future[None] | None = None
        self._asked = 0
        self._answers: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._asking: set[asyncio.Task[None]] = set()
        self._around.wire.on_line = self._line

    async def open(self) -> None:
        """Set the mode; the answer must confirm it."""
        mode = self._around.stance.mode
        if mode is None:
            return
        told = await self._control({"subtype": "set_permission_mode", "mode": mode})
        if told.get("mode") != mode:
            raise TransportError(f"asked for mode {mode}, {told.get('mode')} is in force")

    async def turn(self, text: str) -> TurnEnd:
        """Write the prompt, and read until the contract's end of turn or a failure that the engine tells."""
        self._ends = _EndOfTurn(self._contract)
        self._reader = reader = TurnReader(self._contract, Mode.AUTO, on_text=self._around.say)
        self._ended = asyncio.get_running_loop().create_future()
        self._around.wire.send(orjson.dumps({"type": "user", "message": {"role": "user", "content": text}}))
        await self._ended
        self._reader = None
        reading = reader.finish(0)
        if reading.session and self.session_id is None:
            self.session_id = reading.session.handle_value
        others = {sighting.value for sighting in reading.handle.sightings} - {self.session_id}
        if self.session_id is not None and others:
            return TurnEnd(None, f"it left session {self.session_id} for {others.pop()}")
        failure = reading.failures[0] if reading.failures else None if reading.ended else "nothing proves that it ended"
        return TurnEnd(reading.final_text, failure)

    async def close(self) -> None:
        """Drop what is being asked."""
        for task in self._asking:
            task.cancel()

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
            self._answered(message.get("response") or {})
        else:
            self._take(line + b"\n")

    def _take(self, line: bytes) -> None:
        if self._reader is None:
            return
        self._reader.feed("stdout", line)
        if self._ends.told_by(line) and self._ended and not self._ended.done():
            self._ended.set_result(None)

    async def _control(self, request: dict[str, Any]) -> dict[str, Any]:
        self._asked += 1
        name = f"turngate-{self._asked}"
        self._answers[name] = answered = asyncio.get_running_loop().create_future()
        self._around.wire.send(orjson.dumps({"type": "control_request", "request_id": name, "request": request}))
        told = await answered
        if told.get("subtype") != "success":
            raise TransportError(f"{request['subtype']}: {told.get('error')}")
        response = told.get("response")
        return response if isinstance(response, dict) else {}

    def _answered(self, response: dict[str, Any]) -> None:
        waiting = self._answers.pop(str(response.get("request_id")), None)
        if waiting and not waiting.done():
            waiting.set_result(response)

    async def _answer(self, message: dict[str, Any]) -> None:
        request, sticky = message.get("request") or {}, self._around.contract.sticky
        answer: dict[str, Any] = {"request_id": message.get("request_id")}
        if request.get("subtype") in sticky.permission_requests and sticky.one_time:
            behaviours = {
                sticky.one_time.allow: {"behavior": sticky.one_time.allow, "updatedInput": request.get("input") or {}},
                sticky.one_time.deny: {"behavior": sticky.one_time.deny, "message": "the user refused"},
            }
            context = {key: request[key] for key in ("tool_name", "description", "input") if request.get(key)}
            prompt = f"Allow this action? {request.get('tool_name') or ''} {request.get('description') or ''}".strip()
            chosen = await self._around.ask(Permission(prompt, behaviours, (sticky.one_time.allow,), context))
            answer |= {"subtype": "success", "response": chosen or behaviours[sticky.one_time.deny]}
        else:
            answer |= {"subtype": "error", "error": f"{request.get('subtype')} is not supported"}
        self._around.wire.send(orjson.dumps({"type": "control_response", "response": answer}))


class _EndOfTurn:
    """Looks for the event that ends a turn, well or badly."""

    def __init__(self, contract: EngineContract) -> None:
        self._contract = contract
        self._each = framer(contract.streams.stdout)

    def told_by(self, line: bytes) -> bool:
        """Take a line; say whether the turn has ended."""
        return any(map(self._is_end, self._each.feed(line)))

    def _is_end(self, record: Record) -> bool:
        failures = (sign for sign in self._contract.failures if sign.stream == "stdout" and sign.match)
        return matches(record, self._contract.end.match) or any(matches(record, sign.match) for sign in failures)


def _as_events(contract: EngineContract) -> EngineContract:
    """Read the records of the headless document as events, of which each has a line; they name the session."""
    streams = replace(contract.streams, stdout=Framed("ndjson"))
    return replace(contract, streams=streams, handle=replace(contract.handle, record="first", match=None))
