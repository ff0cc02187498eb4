"""Messages and control requests as JSON objects, answered by the records of a headless turn."""

import json
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from turngate.contract.launch import OneTime
from turngate.contract.simulation import Line
from turngate.contract.structs import Framed
from turngate_probes.simulate.backend import Called, Failed
from turngate_probes.simulate.printing import Slots, fill, rendered
from turngate_probes.simulate.sticky.engine import Message, StickyEngine, dict_at, text_of


class SimulatedStreamJson(StickyEngine):
    """An engine that reads messages from the user and prints what happens."""

    def __init__(self, *engine: Any) -> None:
        super().__init__(*engine)
        stance = self.contract.sticky.interactive
        self.mode = self.simulation.sticky.starts_in or (stance.mode if stance else None)

    def hear(self, message: Message) -> None:
        """Answer a control request, or run a turn."""
        match message.get("type"):
            case "control_request":
                self._control(message)
            case "user":
                self._run(text_of(dict_at(message, "message").get("content")))

    def tell_action(self, call: Called, *, done: bool | None) -> None:
        """Report that the agent uses a tool, or the result."""
        if done is None:
            use = {"type": "tool_use", "id": call.call_id, "name": call.tool, "input": dict(call.arguments)}
            self._say("assistant", use)
        else:
            self._say("user", {"type": "tool_result", "tool_use_id": call.call_id, "is_error": not done})

    def permission_request(self, kind: str, call: Called, once: OneTime) -> tuple[object, Message]:  # noqa: ARG002
        """Return a control request with a new id."""
        about = {"tool_name": call.tool, "description": call.text, "input": dict(call.arguments)}
        number = fill("{uuid}", {})
        return number, {"type": "control_request", "request_id": number, "request": {"subtype": kind, **about}}

    def answered(self, message: Message) -> object:
        """Return the id of the control request that a message answers."""
        return dict_at(message, "response").get("request_id")

    def is_granted(self, answer: Message, once: OneTime) -> bool:
        """Whether the client allows the action."""
        return bool(dict_at(dict_at(answer, "response"), "response").get("behavior") == once.allow)

    def _control(self, message: Message) -> None:
        request = dict_at(message, "request")
        answer: Message = {"subtype": "success", "request_id": message.get("request_id")}
        match request.get("subtype"):
            case "set_permission_mode":
                self.mode = str(request.get("mode"))
                answer["response"] = {"mode": self.mode}
            case "initialize" | "interrupt":
                pass
            case other:
                answer |= {"subtype": "error", "error": f"{other} is not supported"}
        self.write({"type": "control_response", "response": answer})

    def _run(self, prompt: str) -> None:
        begun: Message = {"cwd": self.session.cwd, "model": self.model, "permissionMode": self.mode, "tools": []}
        self._put({"type": "system", "subtype": "init", **begun})
        end = self.turn(prompt)
        slots: Slots = {"handle": self.session.handle, "model": self.model, "turn": 1}
        if isinstance(end, Failed):
            self._print(self.simulation.failed.lines, {**slots, "text": "", "error": end.error, "status": end.status})
        else:
            self._say("assistant", {"type": "text", "text": end})
            self._print(self.simulation.answered, {**slots, "text": end, "error": "", "status": 0})
        self.turn_told()

    def _say(self, role: str, block: Message) -> None:
        self._put({"type": role, "message": {"role": role, "content": [block]}})

    def _put(self, message: Message) -> None:
        self.write({**message, "session_id": self.session.handle})

    def _print(self, lines: Iterable[Line], slots: Slots) -> None:
        """Print the records of a headless turn, each on a line."""
        as_lines = replace(self.contract, streams=replace(self.contract.streams, stdout=Framed("ndjson")))
        for stream, data in rendered(as_lines, lines, ("start", "interactive"), slots):
            if stream == "stdout":
                self.write(json.loads(data))
            else:
                self.world.write(stream, data)
