"""Speaks the Agent Client Protocol; we offer the agent neither files nor terminals."""

import asyncio
from contextlib import suppress

from turngate import messages
from turngate.contract.launch import OneTime
from turngate.messages import received, sent
from turngate.turn.envelope import Envelope, read_envelope
from turngate_reference.server.transports.engine_process import EngineProcess, TransportError
from turngate_reference.server.transports.events import Listener
from turngate_reference.server.transports.transport import Ask, Message, RpcTransport, confirm, mapping

_CANCELLED = messages.PermissionAnswer(messages.PermissionOutcome("cancelled"))
_WELL = "end_turn"
_SHOWN = ("kind", "title", "rawInput", "content", "locations")
CONFIRM_SECONDS = 2.0
# after the response to a prompt: without text, and at most
LATE_SECONDS, MOST_LATE_SECONDS = 1.0, 10.0


class Texts:
    """The agent's texts of one turn: pieces of the same message are joined, a new message replaces the last."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._message: object = None
        self._added = asyncio.Event()
        self._is_over = False

    def add(self, text: str, message: object = None) -> None:
        """Take a piece of a message (None: of the only message)."""
        if message != self._message:
            self._pieces, self._message = [], message
        self._pieces.append(text)
        self._added.set()

    def end(self) -> None:
        """Expect no more text, since the process has ended."""
        self._is_over = True
        self._added.set()

    async def settle(self) -> None:
        """Wait until the text has a whole envelope, which shows that nothing is missing, or no more text comes."""
        with suppress(TimeoutError):
            async with asyncio.timeout(MOST_LATE_SECONDS):
                while not self._is_over and not isinstance(read_envelope(self.final or ""), Envelope):
                    self._added.clear()
                    await asyncio.wait_for(self._added.wait(), LATE_SECONDS)

    @property
    def final(self) -> str | None:
        """The last message; None if there was no text."""
        return "".join(self._pieces) or None


class AcpTransport(RpcTransport):
    """Speaks ACP version 1."""

    def __init__(self, process: EngineProcess, ask: Ask, tell: Listener) -> None:
        super().__init__(process, ask, tell)
        self._texts: Texts | None = None
        self._other_session = ""
        # the mode that must hold from now on, and the one that the agent reported last
        self._mode: str | None = None
        self._told_mode: object = None
        self._mode_told = asyncio.Event()

    async def open(self) -> None:
        """Open a session, ask for the model, and set the mode."""
        asked = messages.Initialize()
        answer = await self.call("initialize", sent(asked))
        if answer.get("protocolVersion") != asked.protocol_version:
            raise TransportError(f"it uses protocol version {answer.get('protocolVersion')}")
        session = await self._session(str(self.request.cwd))
        if self.model is not None and not await self._choose(session, "model", self.model):
            await self._set_model(self.model)
        if self.approval.mode is not None:
            await self._set_mode(session, self.approval.mode)

    async def _session(self, cwd: str) -> Message:
        """Return what the agent tells about the session that it opens."""
        session = await self.call("session/new", sent(messages.NewSession(cwd)))
        if not isinstance(session.get("sessionId"), str):
            raise TransportError("it opened a session without an id")
        self.session_id = session["sessionId"]
        return session

    async def turn(self, text: str) -> tuple[str | None, str | None]:
        """Prompt; the turn ends with the answer to it, which an engine may send before the last text of the turn."""
        self._texts, self._other_session = (texts := Texts()), ""
        prompt = messages.Prompt(str(self.session_id), [messages.TextBlock(text)])
        try:
            ended = await self.call("session/prompt", sent(prompt))
            if ended.get("stopReason") == _WELL and not self._other_session:
                with self.process.held(texts.end):
                    await texts.settle()
        except TransportError as failed:
            return texts.final, str(failed)
        finally:
            self._texts = None
        if texts.final is None and self._other_session:
            return None, self.left_for(self._other_session)
        reason = ended.get("stopReason")
        return texts.final, None if reason == _WELL else f"the turn stopped: {reason}"

    def on_notification(self, method: str, params: Message) -> None:
        """Handle the agent's texts, mode changes, and messages of other sessions."""
        if method != "session/update":
            return
        if params.get("sessionId") != self.session_id and self.session_id is not None:
            self._other_session = str(params.get("sessionId"))
            return
        match received(messages.SessionUpdate, params.get("update")):
            case messages.MessageChunk(messages.TextBlock(text), message) if self._texts is not None and text:
                self._texts.add(text, message)
                self.say(text)
            case messages.ModeUpdate(mode):
                self._told_mode = mode
                self._mode_told.set()
                if self._mode not in (None, mode):
                    self.process.lose(f"it switched from mode {self._mode} to {mode}")

    async def on_permission(self, params: Message, once: OneTime) -> Message:
        """Ask for one of the one-time options, by their names, or by their ids where names repeat."""
        call, kinds = mapping(params.get("toolCall")), (once.allow, once.deny)
        offered = (received(messages.PermissionOption, option) for option in params.get("options", ()))
        options = [option for option in offered if option and option.kind in kinds]
        named = {option.name: option for option in options}
        if len(named) < len(options) or not all(map(str.strip, named)):
            named = {option.option_id: option for option in options}
        answers = {name: sent(_chosen(option)) for name, option in named.items()}
        grants = [name for name, option in named.items() if option.kind == once.allow]
        title = str(call.get("title") or "")
        # a title may be the path of a file alone
        tool = f"{call.get('kind') or ''} {title}".strip()
        return await self.permission(title, answers, grants, call, _SHOWN, tool) or sent(_CANCELLED)

    async def _choose(self, session: Message, category: str, value: str) -> bool:
        """Set an option that the session offers; the answer must confirm it. False: it offers none."""
        option = _option(session, category)
        if option is None:
            return False
        chosen = messages.SetOption(str(self.session_id), option["id"], value)
        answer = await self.call("session/set_config_option", sent(chosen))
        confirm(category, value, (_option(answer, category) or {}).get("currentValue"))
        return True

    async def _set_model(self, model: str) -> None:
        """Set a model without an option: an agent may have a separate request for it, which must confirm it."""
        try:
            answer = await self.call("session/set_model", sent(messages.SetModel(str(self.session_id), model)))
        except TransportError:
            raise TransportError(f"model {model} was requested, but it offers no choice of models") from None
        confirm("model", model, answer.get("currentModelId"))

    async def _set_mode(self, session: Message, mode: str) -> None:
        """Set the mode unless it is already set, since one engine reports a change as a text of the agent."""
        modes = session.get("modes") or {}
        if modes.get("currentModeId") != mode:
            self._told_mode = None
            self._mode_told.clear()
            if not await self._choose(session, "mode", mode):
                await self._set_told_mode(modes, mode)
        if self._told_mode is not None:
            confirm("mode", mode, self._told_mode)
        self._mode = mode

    async def _set_told_mode(self, modes: Message, mode: str) -> None:
        """Set a mode without an option: the agent must report the change, in its answer or after it."""
        if mode not in [offered.get("id") for offered in modes.get("availableModes", ())]:
            raise TransportError(f"it doesn't offer mode {mode}")
        answer = await self.call("session/set_mode", sent(messages.SetMode(str(self.session_id), mode)))
        self._told_mode = answer.get("currentModeId", self._told_mode)
        if self._told_mode is None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._mode_told.wait(), CONFIRM_SECONDS)
        confirm("mode", mode, self._told_mode)


def _chosen(option: messages.PermissionOption) -> messages.PermissionAnswer:
    return messages.PermissionAnswer(messages.PermissionOutcome("selected", option.option_id))


def _option(document: Message, category: str) -> Message | None:
    """Find the option of a session by its category."""
    options = document.get("configOptions") or ()
    return next((o for o in options if isinstance(o, dict) and o.get("category") == category), None)
