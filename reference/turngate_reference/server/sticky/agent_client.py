"""Speaks the Agent Client Protocol; we offer the agent neither files nor terminals."""

import asyncio
from contextlib import suppress
from typing import Any

from acp.meta import AGENT_METHODS, CLIENT_METHODS, PROTOCOL_VERSION

from turngate_reference.server.sticky.rpc import Message, Rpc
from turngate_reference.server.sticky.transport import Permission, Texts, TransportContext, TransportError, TurnEnd

_NOTHING_OFFERED = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
_CANCELLED: Message = {"outcome": {"outcome": "cancelled"}}
_WELL = "end_turn"
_SET_MODEL = "session/set_model"  # not of version 1, and known to agents that offer no option for a model
CONFIRM_SECONDS = 2.0


class AgentClient:
    """A `Speaker` of ACP version 1."""

    def __init__(self, around: TransportContext) -> None:
        self.session_id: str | None = None
        self._around = around
        self._rpc = Rpc(around.wire, self._request, self._notification)
        self._texts: Texts | None = None
        # another session in which the agent went on
        self._elsewhere: set[str] = set()
        # the mode that must hold from now on, and the one that the agent told of last
        self._mode: str | None = None
        self._told: object = None
        self._tells = asyncio.Event()

    async def open(self) -> None:
        """Open a session, ask for the model, and set the mode."""
        asked = {"protocolVersion": PROTOCOL_VERSION, "clientCapabilities": _NOTHING_OFFERED}
        told = await self._rpc.call(AGENT_METHODS["initialize"], asked)
        if told.get("protocolVersion") != PROTOCOL_VERSION:
            raise TransportError(f"it speaks version {told.get('protocolVersion')} of the protocol")
        where = {"cwd": str(self._around.request.cwd), "mcpServers": []}
        session = await self._rpc.call(AGENT_METHODS["session_new"], where)
        if not isinstance(session.get("sessionId"), str):
            raise TransportError("it opened a session without an id")
        self.session_id = session["sessionId"]
        model = self._around.session_model
        if model is not None and not await self._choose(session, "model", model):
            await self._set_model(model)
        if self._around.stance.mode is not None:
            await self._set_mode(session, self._around.stance.mode)

    async def turn(self, text: str) -> TurnEnd:
        """Prompt; the turn ends with the answer to it."""
        self._texts, self._elsewhere = (texts := Texts()), set()
        prompt = {"sessionId": self.session_id, "prompt": [{"type": "text", "text": text}]}
        try:
            ended = await self._rpc.call(AGENT_METHODS["session_prompt"], prompt)
        except TransportError as failed:
            return TurnEnd(texts.final, str(failed))
        finally:
            self._texts = None
        if texts.final is None and self._elsewhere:
            return TurnEnd(None, f"it left session {self.session_id} for {self._elsewhere.pop()}")
        reason = ended.get("stopReason")
        return TurnEnd(texts.final, None if reason == _WELL else f"the turn stopped: {reason}")

    async def close(self) -> None:
        """Stop to listen."""
        await self._rpc.close()

    async def _choose(self, session: Message, category: str, value: str) -> bool:
        """Choose by one of the options that the session offers; the answer must confirm it. False: there is none."""
        option = _option(session, category)
        if option is None:
            return False
        chosen = {"sessionId": self.session_id, "configId": option["id"], "value": value}
        told = await self._rpc.call(AGENT_METHODS["session_set_config_option"], chosen)
        in_force = (_option(told, category) or {}).get("currentValue")
        if in_force != value:
            raise TransportError(f"asked for {category} {value}, {in_force} is in force")
        return True

    async def _set_model(self, model: str) -> None:
        """Set a model for which there is no option: an agent may know a request of its own, which must confirm it."""
        try:
            told = await self._rpc.call(_SET_MODEL, {"sessionId": self.session_id, "modelId": model})
        except TransportError:
            raise TransportError(f"asked for model {model}, it offers no choice of a model") from None
        if told.get("currentModelId") != model:
            raise TransportError(f"asked for model {model}, it can't be confirmed that it is in force")

    async def _set_mode(self, session: Message, mode: str) -> None:
        """Set the mode unless it is in force, since one engine tells of a change in the agent's own voice."""
        modes = session.get("modes") or {}
        if modes.get("currentModeId") != mode:
            self._told = None
            self._tells.clear()
            if not await self._choose(session, "mode", mode):
                await self._set_told_mode(modes, mode)
        if self._told not in (None, mode):
            raise TransportError(f"asked for mode {mode}, {self._told} is in force")
        self._mode = mode

    async def _set_told_mode(self, modes: Message, mode: str) -> None:
        """Set a mode for which there is no option: the agent must tell of the change, in its answer or after it."""
        if mode not in [each.get("id") for each in modes.get("availableModes", ())]:
            raise TransportError(f"it offers no mode {mode}")
        asked = {"sessionId": self.session_id, "modeId": mode}
        told = await self._rpc.call(AGENT_METHODS["session_set_mode"], asked)
        self._told = told.get("currentModeId", self._told)
        if self._told is None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._tells.wait(), CONFIRM_SECONDS)
        if self._told is None:
            raise TransportError(f"asked for mode {mode}, it can't be confirmed that it is in force")

    def _notification(self, method: str, params: Message) -> None:
        update = params.get("update")
        if method != CLIENT_METHODS["session_update"] or not isinstance(update, dict):
            return
        if params.get("sessionId") != self.session_id and self.session_id is not None:
            self._elsewhere = {str(params.get("sessionId"))}
            return
        kind, content = update.get("sessionUpdate"), update.get("content")
        if kind == "agent_message_chunk" and isinstance(content, dict) and isinstance(content.get("text"), str):
            self._hear(content["text"], update.get("messageId"))
        elif kind == "current_mode_update":
            self._told = update.get("currentModeId")
            self._tells.set()
            if self._mode not in (None, self._told):
                self._around.wire.lose(f"it left mode {self._mode} for {self._told}")

    def _hear(self, text: str, message: object) -> None:
        if self._texts is not None and text:
            self._texts.add(text, message)
            self._around.say(text)

    async def _request(self, method: str, params: Message) -> Message | None:
        if method not in self._around.contract.sticky.permission_requests:
            return None
        answer = await self._around.ask(self._permission(params))
        return _CANCELLED if answer is None else answer

    def _permission(self, params: Message) -> Permission:
        call = params.get("toolCall")
        call = call if isinstance(call, dict) else {}
        once = self._around.contract.sticky.one_time
        kinds = (once.allow, once.deny) if once else ()
        options = [each for each in params.get("options", ()) if isinstance(each, dict) and each.get("kind") in kinds]
        names = [str(each.get("name")) for each in options]
        if len(set(names)) < len(names):
            names = [str(each.get("optionId")) for each in options]
        answers = {name: _selected(each) for name, each in zip(names, options, strict=True)}
        grants = tuple(n for n, each in zip(names, options, strict=True) if once and each["kind"] == once.allow)
        context = {key: call[key] for key in ("kind", "title", "rawInput", "content", "locations") if call.get(key)}
        return Permission(f"Allow this action? {call.get('title') or ''}".strip(), answers, grants, context)


def _selected(option: Message) -> Message:
    return {"outcome": {"outcome": "selected", "optionId": option.get("optionId")}}


def _option(document: Message, category: str) -> dict[str, Any] | None:
    """Find the option of a session by its category."""
    options = document.get("configOptions") or ()
    return next((each for each in options if isinstance(each, dict) and each.get("category") == category), None)
