"""The Agent Client Protocol, version 1, from the agent's side."""

from typing import Any

from turngate.contract.launch import OneTime
from turngate_probes.simulate.backend import Called, Failed
from turngate_probes.simulate.sticky.engine import Message, dict_at, text_of
from turngate_probes.simulate.sticky.rpc import BAD_PARAMS, INTERNAL, NO_METHOD, Rpc, RpcError

_ALWAYS = {"optionId": "proceed_always", "name": "Allow for this session", "kind": "allow_always"}


class SimulatedAcp(Rpc):
    """An agent with one session."""

    def __init__(self, *engine: Any) -> None:
        super().__init__(*engine)
        modes = [mode for mode in (self.contract.sticky.interactive, self.contract.sticky.auto) if mode]
        begins, declared = self.simulation.sticky.starts_in, [mode.mode for mode in modes if mode.mode]
        self._modes = list(dict.fromkeys([*([begins] if begins else []), *declared]))
        self.mode = self._modes[0] if self._modes else None
        self._answers = self.simulation.sticky.modes == "answer"

    def request(self, method: str, params: Message, message: Message) -> None:
        """Answer a request of the client; a cancellation outside of a turn does nothing."""
        match method:
            case "initialize":
                contract = self.contract
                about = {"name": contract.engine, "title": contract.title, "version": contract.version or "0.0.0"}
                able = {"loadSession": False, "promptCapabilities": {}}
                self.reply(
                    message,
                    {"protocolVersion": 1, "agentInfo": about, "agentCapabilities": able, "authMethods": []},
                )
            case "session/new":
                self.reply(message, {"sessionId": self.open(params.get("cwd")).handle, **self._choices()})
            case "session/set_mode":
                self._set_mode(params.get("modeId"))
                told: Message = {"currentModeId": self.mode}
                self.reply(message, told if self._answers else {})
                if not self._answers:
                    self._update({"sessionUpdate": "current_mode_update", **told})
            case "session/set_model" if self._answers and isinstance(params.get("modelId"), str):
                self.model = params["modelId"]
                self.reply(message, {"currentModelId": self.model})
            case "session/set_config_option":
                self._set_option(params.get("configId"), params.get("value"))
                self.reply(message, {"configOptions": self._options()})
            case "session/prompt":
                self._prompt(params, message)
            case "session/cancel":
                pass
            case _:
                raise RpcError(NO_METHOD, f"Method not found: {method}")

    def _choices(self) -> Message:
        """Describe the options of a session."""
        options, modes = self._options(), [{"id": mode, "name": mode} for mode in self._modes]
        choices: Message = {"configOptions": options} if options else {}
        return choices | ({"modes": {"currentModeId": self.mode, "availableModes": modes}} if modes else {})

    def _options(self) -> list[Message]:
        options = []
        if self._modes and self.simulation.sticky.modes == "option":
            options.append(_option("mode", self.mode, self._modes))
        if self.contract.sticky.model == "session" and not self._answers:
            options.append(_option("model", self.model, [self.model]))
        return options

    def _set_mode(self, mode: object) -> None:
        if not isinstance(mode, str) or mode not in self._modes:
            raise RpcError(BAD_PARAMS, f"there is no mode {mode}")
        self.mode = mode

    def _set_option(self, name: object, value: object) -> None:
        if name not in [option["id"] for option in self._options()] or not isinstance(value, str):
            raise RpcError(BAD_PARAMS, f"there is no option {name}")
        if name == "mode":
            self._set_mode(value)
        else:
            self.model = value

    def _prompt(self, params: Message, message: Message) -> None:
        end = self.turn(text_of(params.get("prompt")))
        if isinstance(end, Failed):
            raise RpcError(end.status if end.status > 1 else INTERNAL, end.error)
        middle = len(end) // 2
        for piece in filter(None, (end[:middle], end[middle:])):
            self._update({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": piece}})
        self.reply(message, {"stopReason": "end_turn"})
        self.turn_told()

    def tell_action(self, call: Called, *, done: bool | None) -> None:
        """Send a tool call, or how it ended."""
        kind = "tool_call" if done is None else "tool_call_update"
        status = {None: "pending", True: "completed", False: "failed"}[done]
        self._update({"sessionUpdate": kind, **_call(call, status)})

    def permission_params(self, call: Called, once: OneTime) -> Message:
        """Offer to allow the action once or always, or to refuse it."""
        options = [
            _ALWAYS,
            {"optionId": "proceed_once", "name": "Allow", "kind": once.allow},
            {"optionId": "cancel", "name": "Reject", "kind": once.deny},
        ]
        return {"sessionId": self.session.handle, "toolCall": _call(call, "pending"), "options": options}

    def is_granted(self, answer: Message, once: OneTime) -> bool:  # noqa: ARG002 - the options have ids of our own
        """Whether the client chose an option that allows."""
        return dict_at(dict_at(answer, "result"), "outcome").get("optionId") in ("proceed_once", "proceed_always")

    def _update(self, update: Message) -> None:
        self.tell("session/update", {"sessionId": self.session.handle, "update": update})


def _option(name: str, value: str | None, values: list[str]) -> Message:
    choices = [{"value": value, "name": value} for value in values]
    return {
        "id": name, "name": name.title(), "category": name, "type": "select", "currentValue": value, "options": choices
    }  # fmt: skip


def _call(call: Called, status: str) -> Message:
    title, arguments = f"{call.tool}: {call.text}", dict(call.arguments)
    return {"toolCallId": call.call_id, "title": title, "kind": "edit", "rawInput": arguments, "status": status}
