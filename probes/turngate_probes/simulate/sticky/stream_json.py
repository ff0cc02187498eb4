"""Messages and control requests as JSON objects, answered by the records of a headless turn."""

import json
from collections.abc import Iterable
from typing import Never

from msgspec.structs import replace

from turngate.contract.simulation import Line
from turngate.contract.structs import Framed
from turngate_probes.simulate.printing import Slots, fill, rendered
from turngate_probes.simulate.sticky.client import Message, StdioClient
from turngate_probes.simulate.sticky.engine import Action, StickyEngine, Talk


class SimulatedStreamJson:
    """An engine that reads messages from the user and prints what happens."""

    def __init__(self, engine: StickyEngine, client: StdioClient) -> None:
        self._engine, self._client = engine, client
        stance = engine.contract.sticky.interactive
        engine.mode = engine.simulation.sticky.starts_in or (stance.mode if stance else None)

    def serve(self) -> Never:
        """Answer until the process ends."""
        while True:
            message = self._client.read()
            match message.get("type"):
                case "control_request":
                    self._control(message)
                case "user":
                    self._turn(_text_of(message))

    def _control(self, message: Message) -> None:
        request = message.get("request")
        request = request if isinstance(request, dict) else {}
        answer: Message = {"subtype": "success", "request_id": message.get("request_id")}
        match request.get("subtype"):
            case "set_permission_mode":
                self._engine.mode = str(request.get("mode"))
                answer["response"] = {"mode": self._engine.mode}
            case "initialize" | "interrupt":
                pass
            case other:
                answer |= {"subtype": "error", "error": f"{other} is not supported"}
        self._client.write({"type": "control_response", "response": answer})

    def _turn(self, prompt: str) -> None:
        engine = self._engine
        begun: Message = {"cwd": engine.session.cwd, "model": engine.model, "permissionMode": engine.mode, "tools": []}
        self._put({"type": "system", "subtype": "init", **begun})
        end = engine.turn(prompt, Talk(self._called, self._permit, self._acted))
        failed = end.failure
        slots: Slots = {
            "handle": engine.session.handle, "model": engine.model, "text": end.text, "turn": 1,
            "error": failed.error if failed else "", "status": failed.status if failed else 0,
        }  # fmt: skip
        if not failed:
            self._put({"type": "assistant", "message": _said("assistant", {"type": "text", "text": end.text})})
        self._print(engine.simulation.failed.lines if failed else engine.simulation.answered, slots)
        engine.turn_told()

    def _called(self, action: Action) -> None:
        use = {"type": "tool_use", "id": action.call_id, "name": action.tool, "input": dict(action.arguments)}
        self._put({"type": "assistant", "message": _said("assistant", use)})

    def _permit(self, action: Action, times: int) -> bool:
        kept = self._engine.contract.sticky
        if not kept.permission_requests or kept.one_time is None:
            return False
        about = {"tool_name": action.tool, "description": action.text, "input": dict(action.arguments)}
        request = {"subtype": kept.permission_requests[0], **about}
        open_ = {str(fill("{uuid}", {})) for _ in range(times)}
        for name in open_:
            self._client.write({"type": "control_request", "request_id": name, "request": request})
        granted = True
        while open_:
            answer = self._client.wait_for(lambda reply: _answers(reply) in open_)["response"]
            open_.discard(answer["request_id"])
            decided = answer.get("response")
            granted = granted and isinstance(decided, dict) and decided.get("behavior") == kept.one_time.allow
        return granted

    def _acted(self, action: Action, done: bool) -> None:  # noqa: FBT001 - a fact of its own
        result = {"type": "tool_result", "tool_use_id": action.call_id, "is_error": not done}
        self._put({"type": "user", "message": _said("user", result)})

    def _put(self, message: Message) -> None:
        self._client.write({**message, "session_id": self._engine.session.handle})

    def _print(self, lines: Iterable[Line], slots: Slots) -> None:
        """Print the records of a headless turn, each on a line."""
        contract = self._engine.contract
        as_lines = replace(contract, streams=replace(contract.streams, stdout=Framed("ndjson")))
        for stream, data in rendered(as_lines, lines, ("start", "interactive"), slots):
            if stream == "stdout":
                self._client.write(json.loads(data))
            else:
                self._engine.world.write(stream, data)


def _said(role: str, block: Message) -> Message:
    return {"role": role, "content": [block]}


def _text_of(message: Message) -> str:
    said = message.get("message")
    content = said.get("content") if isinstance(said, dict) else None
    if isinstance(content, list):
        return "\n".join(str(block.get("text")) for block in content if isinstance(block, dict))
    return str(content or "")


def _answers(message: Message) -> object:
    response = message.get("response")
    return response.get("request_id") if isinstance(response, dict) else None
