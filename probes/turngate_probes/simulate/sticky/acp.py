"""The Agent Client Protocol, version 1, from the agent's side."""

from turngate_probes.simulate.sticky.client import Message, StdioClient
from turngate_probes.simulate.sticky.engine import Action, StickyEngine, Talk
from turngate_probes.simulate.sticky.rpc import BAD_PARAMS, INTERNAL, NO_METHOD, Rpc, RpcError

_ALWAYS = {"optionId": "proceed_always", "name": "Allow for this session", "kind": "allow_always"}


class SimulatedAcp(Rpc):
    """An agent with one session."""

    def __init__(self, engine: StickyEngine, client: StdioClient) -> None:
        super().__init__(engine, client)
        modes = [mode for mode in (engine.contract.sticky.interactive, engine.contract.sticky.auto) if mode]
        begins, declared = engine.simulation.sticky.starts_in, [mode.mode for mode in modes if mode.mode]
        self._modes = list(dict.fromkeys([*([begins] if begins else []), *declared]))
        engine.mode = self._modes[0] if self._modes else None
        self._answers = engine.simulation.sticky.modes == "answer"

    def hear(self, method: str, params: Message, message: Message) -> None:
        """Answer what a client asks; a cancellation outside of a turn has nothing to cancel."""
        match method:
            case "initialize":
                contract = self.engine.contract
                about = {"name": contract.engine, "title": contract.title, "version": contract.version or "0.0.0"}
                able = {"loadSession": False, "promptCapabilities": {}}
                self.reply(
                    message,
                    {"protocolVersion": 1, "agentInfo": about, "agentCapabilities": able, "authMethods": []},
                )
            case "session/new":
                self.reply(message, {"sessionId": self.engine.open(params.get("cwd")).handle, **self._choices()})
            case "session/set_mode":
                self._set_mode(params.get("modeId"))
                told: Message = {"currentModeId": self.engine.mode}
                self.reply(message, told if self._answers else {})
                if not self._answers:
                    self._update({"sessionUpdate": "current_mode_update", **told})
            case "session/set_model" if self._answers and isinstance(params.get("modelId"), str):
                self.engine.model = params["modelId"]
                self.reply(message, {"currentModelId": self.engine.model})
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
        """Describe what may be chosen of a session."""
        options, modes = self._options(), [{"id": mode, "name": mode} for mode in self._modes]
        choices: Message = {"configOptions": options} if options else {}
        return choices | ({"modes": {"currentModeId": self.engine.mode, "availableModes": modes}} if modes else {})

    def _options(self) -> list[Message]:
        options = []
        if self._modes and self.engine.simulation.sticky.modes == "option":
            options.append(_option("mode", self.engine.mode, self._modes))
        if self.engine.contract.sticky.model == "session" and not self._answers:
            options.append(_option("model", self.engine.model, [self.engine.model]))
        return options

    def _set_mode(self, mode: object) -> None:
        if not isinstance(mode, str) or mode not in self._modes:
            raise RpcError(BAD_PARAMS, f"there is no mode {mode}")
        self.engine.mode = mode

    def _set_option(self, name: object, value: object) -> None:
        if name not in [option["id"] for option in self._options()] or not isinstance(value, str):
            raise RpcError(BAD_PARAMS, f"there is no option {name}")
        if name == "mode":
            self._set_mode(value)
        else:
            self.engine.model = value

    def _prompt(self, params: Message, message: Message) -> None:
        blocks = params.get("prompt")
        blocks = blocks if isinstance(blocks, list) else []
        texts = [str(block.get("text")) for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
        end = self.engine.turn("\n".join(texts), Talk(self._called, self._permit, self._acted))
        if end.failure:
            raise RpcError(end.failure.status if end.failure.status > 1 else INTERNAL, end.failure.error)
        middle = len(end.text) // 2
        for piece in filter(None, (end.text[:middle], end.text[middle:])):
            self._update({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": piece}})
        self.reply(message, {"stopReason": "end_turn"})
        self.engine.turn_told()

    def _called(self, action: Action) -> None:
        self._update({"sessionUpdate": "tool_call", **_call(action), "status": "pending"})

    def _permit(self, action: Action, times: int) -> bool:
        asks, once = self.engine.contract.sticky.permission_requests, self.engine.contract.sticky.one_time
        if not asks or once is None:
            return False
        options = [
            _ALWAYS,
            {"optionId": "proceed_once", "name": "Allow", "kind": once.allow},
            {"optionId": "cancel", "name": "Reject", "kind": once.deny},
        ]
        call = {**_call(action), "status": "pending"}
        asked = {"sessionId": self.engine.session.handle, "toolCall": call, "options": options}
        return all(map(_is_granted, self.request_each(asks[0], asked, times)))

    def _acted(self, action: Action, done: bool) -> None:  # noqa: FBT001 - a fact of its own
        status = "completed" if done else "failed"
        self._update({"sessionUpdate": "tool_call_update", **_call(action), "status": status})

    def _update(self, update: Message) -> None:
        self.tell("session/update", {"sessionId": self.engine.session.handle, "update": update})


def _option(name: str, value: str | None, values: list[str]) -> Message:
    choices = [{"value": value, "name": value} for value in values]
    return {
        "id": name, "name": name.title(), "category": name, "type": "select", "currentValue": value, "options": choices
    }  # fmt: skip


def _call(action: Action) -> Message:
    title = f"{action.tool}: {action.text}"
    return {"toolCallId": action.call_id, "title": title, "kind": "edit", "rawInput": dict(action.arguments)}


def _is_granted(answer: Message) -> bool:
    result = answer.get("result")
    outcome = result.get("outcome") if isinstance(result, dict) else None
    return isinstance(outcome, dict) and outcome.get("optionId") in {"proceed_once", "proceed_always"}
