"""Speaks to engines that print in a resident process what they print headlessly: `lines` and `stream_json`."""

import asyncio
from functools import partial
from typing import Any

import orjson
from msgspec.structs import replace

from turngate.contract import EngineContract, Framed, Stream
from turngate.framing import framer
from turngate.model import Mode
from turngate.records import Record, matches
from turngate.turn import TurnReader
from turngate_reference.resident.speech import Permission, SpeechError, Surroundings, TurnEnd


class Lines:
    """A `Speaker` of `lines`: one JSON string per line in, the answer as in headless mode."""

    def __init__(self, around: Surroundings) -> None:
        self.session_id: str | None = None
        self._around = around
        self._contract = self._as_printed(around.contract)
        self._reader: TurnReader | None = None
        self._ends = _EndOfTurn(self._contract)
        self._ended: asyncio.Future[None] | None = None
        self._listen()

    async def open(self) -> None:
        """Nothing is said before the first prompt."""

    async def turn(self, text: str) -> TurnEnd:
        """Write the prompt, and read until the contract's end of turn or a failure that the engine tells."""
        self._ends = _EndOfTurn(self._contract)
        self._reader = reader = TurnReader(self._contract, Mode.AUTO, on_text=self._around.say)
        self._ended = asyncio.get_running_loop().create_future()
        self._around.wire.send(self._prompt(text))
        await self._ended
        # what was printed on the other stream before the end may still lie in its pipe
        for _ in range(3):
            await asyncio.sleep(0)
        self._reader = None
        reading = reader.finish(0)
        if reading.session:
            self.session_id = reading.session.handle_value
        failure = reading.failures[0] if reading.failures else None if reading.ended else "nothing proves that it ended"
        return TurnEnd(reading.final_text, failure)

    async def close(self) -> None:
        """Nothing runs beside."""

    def _as_printed(self, contract: EngineContract) -> EngineContract:
        """Give the contract by which the output is read."""
        return contract

    def _prompt(self, text: str) -> bytes:
        return orjson.dumps(text)

    def _listen(self) -> None:
        # uncut, since a document may end without a newline
        self._around.wire.on_output = partial(self._take, "stdout")
        self._around.wire.on_stderr = partial(self._take, "stderr")

    def _take(self, stream: Stream, data: bytes) -> None:
        if self._reader is None:
            return
        self._reader.feed(stream, data)
        if self._ends.told_by(stream, data) and self._ended and not self._ended.done():
            self._ended.set_result(None)


class StreamJson(Lines):
    """A `Speaker` of `stream_json`: messages as JSON objects in, control requests in both directions."""

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        self._asked = 0
        self._answers: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._asking: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Set the mode; the answer must confirm it."""
        mode = self._around.stance.mode
        if mode is None:
            return
        told = await self._control({"subtype": "set_permission_mode", "mode": mode})
        if told.get("mode") != mode:
            raise SpeechError(f"asked for mode {mode}, {told.get('mode')} is in force")

    async def close(self) -> None:
        """Drop what is being asked."""
        for task in self._asking:
            task.cancel()

    def _as_printed(self, contract: EngineContract) -> EngineContract:
        """Read the records of the headless document as events, of which each has a line; they name the session."""
        streams = replace(contract.streams, stdout=Framed("ndjson"))
        return replace(contract, streams=streams, handle=replace(contract.handle, record="first", match=None))

    def _prompt(self, text: str) -> bytes:
        return orjson.dumps({"type": "user", "message": {"role": "user", "content": text}})

    def _listen(self) -> None:
        self._around.wire.on_line = self._line

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
            self._take("stdout", line + b"\n")

    async def _control(self, request: dict[str, Any]) -> dict[str, Any]:
        self._asked += 1
        name = f"turngate-{self._asked}"
        self._answers[name] = answered = asyncio.get_running_loop().create_future()
        self._around.wire.send(orjson.dumps({"type": "control_request", "request_id": name, "request": request}))
        told = await answered
        if told.get("subtype") != "success":
            raise SpeechError(f"{request['subtype']}: {told.get('error')}")
        response = told.get("response")
        return response if isinstance(response, dict) else {}

    def _answered(self, response: dict[str, Any]) -> None:
        waiting = self._answers.pop(str(response.get("request_id")), None)
        if waiting and not waiting.done():
            waiting.set_result(response)

    async def _answer(self, message: dict[str, Any]) -> None:
        request, resident = message.get("request") or {}, self._around.contract.resident
        answer: dict[str, Any] = {"request_id": message.get("request_id")}
        if request.get("subtype") in resident.asks and resident.once:
            behaviours = {
                resident.once.allow: {"behavior": resident.once.allow, "updatedInput": request.get("input") or {}},
                resident.once.deny: {"behavior": resident.once.deny, "message": "the user refused"},
            }
            context = {key: request[key] for key in ("tool_name", "description", "input") if request.get(key)}
            prompt = f"Allow this action? {request.get('tool_name') or ''} {request.get('description') or ''}".strip()
            chosen = await self._around.ask(Permission(prompt, behaviours, (resident.once.allow,), context))
            answer |= {"subtype": "success", "response": chosen or behaviours[resident.once.deny]}
        else:
            answer |= {"subtype": "error", "error": f"{request.get('subtype')} is not supported"}
        self._around.wire.send(orjson.dumps({"type": "control_response", "response": answer}))


class _EndOfTurn:
    """Looks in a stream for the record that ends a turn, well or badly."""

    def __init__(self, contract: EngineContract) -> None:
        self._contract = contract
        self._stream = contract.end.stream
        self._framed = contract.stream(self._stream)
        self._whole = b""
        self._each = framer(self._framed) if self._framed.framing == "ndjson" else None

    def told_by(self, stream: Stream, data: bytes) -> bool:
        """Take what a stream printed next; say whether the turn has ended."""
        if stream != self._stream:
            return False
        if self._each:
            return any(map(self._is_end, self._each.feed(data)))
        # a document or block is whole when it can be read; that is tried where one may end
        self._whole += data
        if not data.rstrip().endswith((b"}", f"</{self._framed.tag}>".encode())):
            return False
        read = framer(self._framed)
        records = [*read.feed(self._whole), *read.finish()]
        return not read.problems.count and any(map(self._is_end, records))

    def _is_end(self, record: Record) -> bool:
        failures = (sign for sign in self._contract.failures if sign.stream == self._stream and sign.match)
        return matches(record, self._contract.end.match) or any(matches(record, sign.match) for sign in failures)
