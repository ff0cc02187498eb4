"""The Agent Client Protocol, version 1, from the agent's side, with the modes, model and files of a session."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from turngate import EngineContract
from turngate.contract.launch import OneTime
from turngate.contract.simulated_protocols import Records
from turngate.contract.simulation import StickySimulation
from turngate.messages import (
    FileAccess,
    Initialize,
    LoadSession,
    MessageChunk,
    ModeUpdate,
    NewSession,
    PermissionAnswer,
    PermissionOption,
    Prompt,
    SetMode,
    SetModel,
    SetOption,
    TextBlock,
    UserChunk,
    received,
    sent,
)
from turngate_probes.simulate.backend import Called, Failed
from turngate_probes.simulate.faults import Faults
from turngate_probes.simulate.printing import Slots, fill, fill_all
from turngate_probes.simulate.sticky.engine import DONE, OTHER_MODE, text_of
from turngate_probes.simulate.sticky.message_queue import Message
from turngate_probes.simulate.sticky.rpc import BAD_PARAMS, INTERNAL, NO_METHOD, Rpc, RpcError
from turngate_probes.simulate.sticky.tool_calls import slots_of
from turngate_probes.simulate.store import SimulatedSession

MANY, LONG = 99, 1001
LATE = 0.035  # seconds, as real text came after a response


class Modes:
    """`current` is the mode in force, None if the engine has none; `answers`: setting one is answered with it.

    `other` is another mode than the contract's interactive one, `faults` are those of the process.
    """

    def __init__(self, contract: EngineContract, simulation: StickySimulation, model: str, faults: Faults) -> None:
        approvals = [approval for approval in (contract.sticky.interactive, contract.sticky.auto) if approval]
        starts = [
            mode
            for mode in (simulation.starts_in, *(approval.mode for approval in approvals), *simulation.denies)
            if mode
        ]
        named = {mode["id"]: {**mode} for mode in simulation.acp.modes}
        self._modes: dict[str, Message] = named | {
            mode: {"id": mode, "name": mode} for mode in starts if mode not in named
        }
        self.faults = faults
        self.current = next(iter((*starts, *self._modes)), None)
        approval = contract.sticky.interactive.mode if contract.sticky.interactive else None
        self.other = next((mode for mode in (*starts, *self._modes) if mode != approval), OTHER_MODE)
        if faults.wrong_mode:
            self.current = self.other
        self.model = model
        self.answers = simulation.modes == "answer"
        self._tells_modes_as_option = simulation.modes == "option" and not named
        self._has_mode_option = simulation.modes == "option" and bool(self._modes)
        self._has_model_option = contract.sticky.model == "session" and not self.answers

    def set(self, mode: str) -> bool:
        """Set the mode, and return whether there is such a mode."""
        if mode not in self._modes:
            return False
        self.current = self.current if self.faults.wrong_mode else mode
        return True

    def set_option(self, name: str, value: str) -> bool:
        """Set an option of the session, and return whether that was possible."""
        if name not in [option["id"] for option in self.options()]:
            return False
        if name == "mode":
            return self.set(value)
        self.model = value
        return True

    def described(self) -> Message:
        """Return the fields of a response that describe a session's modes and options."""
        options, modes = self.options(), list(self._modes.values())
        fields: Message = {"configOptions": options} if options else {}
        if self._tells_modes_as_option or not modes:
            return fields
        reported = {} if self.faults.hides_mode else {"currentModeId": self.current}
        return fields | {"modes": {**reported, "availableModes": modes}}

    def options(self) -> list[Message]:
        """Return the options of a session, and their values."""
        options = []
        if self._has_mode_option and not self.faults.hides_mode:
            options.append(_option("mode", self.current, list(self._modes)))
        if self._has_model_option and not self.faults.refuses_model:
            options.append(_option("model", self.model, [self.model]))
        return options


def _option(name: str, value: str | None, values: list[str]) -> Message:
    choices = [{"value": value, "name": value} for value in values]
    return {
        "id": name,
        "name": name.title(),
        "category": name,
        "type": "select",
        "currentValue": value,
        "options": choices,
    }


class ClientFiles:
    """`uses` are `read` and `write`, as far as the agent does; `offered` are the client's capabilities.

    `call` sends a request to the client and returns its answer.
    """

    def __init__(self, uses: Sequence[str], call: Callable[[str, Message], Message]) -> None:
        self.offered = FileAccess()
        self._uses, self._call = uses, call

    @property
    def writes(self) -> bool:
        """Whether files are written through the client."""
        return "write" in self._uses and self.offered.write_text_file

    def can_read(self, slots: Slots) -> bool:
        """Whether the client can read the file, or need not."""
        return self.read(slots) is None

    def read(self, slots: Slots) -> str | None:
        """Read the file through the client, if the agent does that; return the error."""
        if "read" not in self._uses or not self.offered.read_text_file:
            return None
        return self._failure("fs/read_text_file", {"path": slots["path"], "sessionId": slots["handle"]})

    def write(self, slots: Slots) -> str | None:
        """Write the file through the client, and return the error."""
        about = {"path": slots["path"], "content": slots["content"], "sessionId": slots["handle"]}
        return self._failure("fs/write_text_file", about)

    def _failure(self, method: str, params: Message) -> str | None:
        error = self._call(method, params).get("error")
        return str(error.get("message")) if isinstance(error, dict) else None


class SimulatedAcp(Rpc):
    """An agent with sessions, one of which runs a turn."""

    def __init__(self, *engine: Any) -> None:
        super().__init__(*engine)
        self.records = self.simulation.sticky.acp
        self.modes = Modes(self.contract, self.simulation.sticky, self.model, self.faults)
        self.files = ClientFiles(self.records.client_files, self.call)
        self._sessions: dict[str, SimulatedSession] = {}
        self._always = False
        self._call: Called | None = None
        self._late = ""  # text that follows the response to the prompt

    @property
    def mode(self) -> str | None:
        """The mode of the session."""
        return self.modes.current

    def request(self, method: str, params: Message, message: Message) -> None:
        """Answer a request of the client; a cancellation outside of a turn does nothing."""
        if method in ("authenticate", "session/cancel"):
            self.reply(message, {})
            return
        handlers: dict[str, tuple[type[Struct], Callable[[Any], Message]]] = {
            "initialize": (Initialize, self._initialize),
            "session/new": (NewSession, self._new),
            "session/load": (LoadSession, self._load),
            "session/set_mode": (SetMode, self._set_mode),
            "session/set_model": (SetModel, self._set_model),
            "session/set_config_option": (SetOption, self._set_option),
            "session/prompt": (Prompt, self._prompt),
        }
        if method not in handlers or (method == "session/set_model" and self.faults.refuses_model):
            raise RpcError(NO_METHOD, f"Method not found: {method}")
        kind, answer = handlers[method]
        if (asked := received(kind, params)) is None:
            raise RpcError(BAD_PARAMS, f"Invalid params for {method}")
        self.reply(message, answer(asked))
        if method == "session/new":
            self._update_all(self.records.opened, {})
        if method == "session/prompt":
            time.sleep(LATE if self._late else 0)
            self._say(self._late)
            self.turn_told()

    def stops(self, message: Message) -> bool:
        """Whether a message cancels the turn."""
        return message.get("method") == "session/cancel"

    def tell_action(self, call: Called, *, done: bool | None, result: str = "") -> None:
        """Send updates about a tool call, or how it ended."""
        records = self.records
        self._call = call if done is None else None
        ended = {None: records.called, True: records.done, False: records.refused if self.refused else records.failed}
        self._update_all(ended[done], {**self._slots(call), "result": result})

    def permitted(self, call: Called) -> tuple[Called, str | None]:
        """Ask for permission, unless the client granted it for the session or can't read the file."""
        slots = self._slots(call)
        readable = self.files.can_read(slots)
        if self._always or self.approval == "act" or not readable:
            self._update_all(self.records.unasked, slots)
            return call, None
        call, refusal = super().permitted(call)
        self._update_all(self.records.decided, slots)
        return call, refusal and self.records.declined

    def do(self, call: Called) -> str | None:
        """Do what a permitted call does, through the client if it offers its files."""
        slots = self._slots(call)
        if unreadable := self.files.read(slots):
            return str(fill(self.records.unreadable, {**slots, "error": unreadable}))
        return self.files.write(slots) if self.files.writes else super().do(call)

    def permission_params(self, call: Called, once: OneTime) -> Message:
        """Offer to allow the action once or always, or to refuse it."""
        asked = fill_all(self.records.asked, self._slots(call))
        return {"sessionId": self.session.handle, "toolCall": asked, "options": self._options(once)}

    def is_granted(self, answer: Message, once: OneTime) -> bool:
        """Whether the client chose an option that allows; it may allow for the whole session."""
        answered = received(PermissionAnswer, answer.get("result"))
        chosen = answered and answered.outcome.option_id
        kind = next((option["kind"] for option in self._options(once) if option["optionId"] == chosen), "")
        self._always = self._always or kind == "allow_always"
        return kind in (once.allow, "allow_always")

    def _options(self, once: OneTime) -> list[Message]:
        usual = (
            PermissionOption("proceed_always", "Allow for this session", "allow_always"),
            PermissionOption("proceed_once", "Allow", once.allow),
            PermissionOption("cancel", "Reject", once.deny),
        )
        options = [dict(option) for option in self.records.options] or [sent(option) for option in usual]
        match self.faults.choices:
            case "unnamed":
                return [option | {"name": " "} for option in options]
            case "many" | "long" as more:
                names = [f"choice {number}" for number in range(MANY)] if more == "many" else ["x" * LONG]
                return options + [sent(PermissionOption(name, name, once.allow)) for name in names]
        return options

    def _initialize(self, asked: Initialize) -> Message:
        self.files.offered = asked.client_capabilities.fs
        contract = self.contract
        about = {"name": contract.engine, "title": contract.title, "version": contract.version or "0.0.0"}
        return {
            "protocolVersion": Initialize().protocol_version,
            "agentInfo": about,
            **fill_all(self.records.initialized, about),
        }

    def _new(self, asked: NewSession) -> Message:
        session = self.open(asked.cwd)
        self._sessions[session.handle] = session
        return {"sessionId": session.handle, **self.modes.described()}

    def _load(self, asked: LoadSession) -> Message:
        """Continue a session, and send what was written in it."""
        handle = asked.session_id
        session = self.load(handle, asked.cwd) if self.records.loads else None
        if session is None:
            lost, slots = self.records.lost, {"handle": handle}
            raise RpcError(lost.code, fill(lost.message, slots), fill_all(lost.data, slots))
        self._sessions[handle] = session
        self._recall(session)
        return self.modes.described()

    def _recall(self, session: SimulatedSession) -> None:
        """Send what was written and done in a session."""
        records, slots = self.records, self._slots()
        self._update_all(records.loaded, slots)
        for message in session.messages:
            text = str(message["content"] or "")
            if message["role"] == "user":
                self._update(sent(UserChunk(TextBlock(text))))
            elif message["role"] == "tool":
                end = "done" if text == DONE else "refused" if text == records.declined else "failed"
                usual = {"done": records.done, "refused": records.refused, "failed": records.failed}[end]
                ended = records.recalled_end.get(end, usual if records.recalled else ())
                self._update_all(ended, {**slots, "result": text})
            elif calls := message.get("tool_calls"):
                slots = self._slots(Called(str(calls[0]["function"]["name"]), str(calls[0]["id"]), message))
                self._update_all(records.recalled, slots)
            elif text:
                self._update(sent(MessageChunk(TextBlock(text))))
                self._update_all(records.after_text, {})

    def _set_mode(self, asked: SetMode) -> Message:
        if not self.modes.set(asked.mode_id):
            raise RpcError(BAD_PARAMS, f"there is no mode {asked.mode_id}")
        self._leave_mode()
        if self.faults.hides_mode:
            return {}
        if self.simulation.sticky.modes == "request":
            self._update(sent(ModeUpdate(self.mode)))
        return {"currentModeId": self.mode} if self.modes.answers else {}

    def _set_model(self, asked: SetModel) -> Message:
        self.model = self.modes.model = asked.model_id
        return {"currentModelId": self.model} if self.modes.answers else {}

    def _set_option(self, asked: SetOption) -> Message:
        if not self.modes.set_option(asked.config_id, asked.value):
            raise RpcError(BAD_PARAMS, f"there is no option {asked.config_id}")
        self.model = self.modes.model
        if asked.config_id == "mode":
            self._leave_mode()
        return {"configOptions": self.modes.options()}

    def _prompt(self, asked: Prompt) -> Message:
        session = self._sessions.get(asked.session_id)
        if session is None:
            raise RpcError(BAD_PARAMS, f"Session not found: {asked.session_id}")
        prompt = text_of(asked.prompt)
        self.begin(prompt)
        self._leave_mode()
        end = self.turn(prompt, session)
        if isinstance(end, Failed):
            raise RpcError(end.status if end.status > 1 else INTERNAL, end.error)
        if end is None:
            self._update_all(self.records.cancelled if self._call else (), self._slots(self._call))
            return {"stopReason": "cancelled"}
        middle = len(end) // 2
        self._say(end[:middle])
        self._late = end[middle:] if self.faults.late_text else ""
        self._say(end[middle:] if not self._late else "")
        self._update_all(self.records.after_text if end else (), {})
        return {"stopReason": "end_turn", **fill_all(self.records.prompted, self._slots())}

    def _say(self, text: str) -> None:
        """Send a piece of the agent's text, unless it is empty."""
        if text:
            self._update(sent(MessageChunk(TextBlock(text))))

    def _leave_mode(self) -> None:
        """Report a switch to another mode, if that is a fault at present."""
        if self.faults.leaves_mode:
            self._update(sent(ModeUpdate(self.modes.other)))

    def _slots(self, call: Called | None = None) -> Slots:
        tool, session = self.contract.hermetic.tool_call, self.session
        about = {"handle": session.handle, "cwd": session.cwd, "model": self.model, "requests": self.requests}
        return {**about, **slots_of(call, tool, session.cwd)} if call and tool else about

    def _update_all(self, updates: Records, slots: Slots) -> None:
        for update in updates:
            self._update(fill_all(update, slots))

    def _update(self, update: Message) -> None:
        self.tell("session/update", {"sessionId": self.session.handle, "update": update})
