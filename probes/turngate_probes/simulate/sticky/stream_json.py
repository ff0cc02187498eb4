"""Messages and control requests as JSON objects, and the hooks that a client registers for events of the engine."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Never

from msgspec import Struct
from msgspec.structs import replace

from turngate import NotFoundError
from turngate.contract.launch import OneTime
from turngate.contract.simulated_protocols import Record
from turngate.messages import ControlAnswer, ControlRequest, ControlResponse, ToolDecision, UserMessage, received, sent
from turngate_probes.simulate.arguments import UsageProblem
from turngate_probes.simulate.backend import Called, Failed
from turngate_probes.simulate.printing import Slots, fill, fill_all
from turngate_probes.simulate.sticky.engine import DECLINED, OTHER_MODE, StickyEngine, dict_at, text_of
from turngate_probes.simulate.sticky.message_queue import Message
from turngate_probes.simulate.sticky.sticky_client import CancelledTurn
from turngate_probes.simulate.sticky.tool_calls import slots_of
from turngate_probes.simulate.store import store

ASK, DENY = "ask", "deny"


class HookDecision(Struct, frozen=True):
    """What hooks decide about a tool call: `allow`, `deny` or `ask`; None leaves it open."""

    decision: str | None = None
    reason: str = ""


class Hooks:
    """Hooks by event, as a client registers them; `call` runs the one of an id and returns what it says."""

    def __init__(self, call: Callable[[str, Message], Message]) -> None:
        self.registered: Message = {}
        self._call = call

    def run(self, name: str, event: Message, tool: str = "") -> HookDecision:
        """Run the hooks of an event that match a tool, and return the first decision."""
        verdict = HookDecision()
        for callback in self._matching(name, tool):
            decided = _verdict(self._call(callback, event))
            verdict = verdict if verdict.decision else decided
        return verdict

    def _matching(self, name: str, tool: str) -> Iterator[str]:
        for matcher in self.registered.get(name) or ():
            pattern = matcher.get("matcher")
            if not pattern or pattern == "*" or re.fullmatch(pattern, tool):
                yield from matcher.get("hookCallbackIds") or ()


def _verdict(reply: Message) -> HookDecision:
    """Read a decision about a tool, or the older form that blocks."""
    specific = reply.get("hookSpecificOutput")
    if isinstance(specific, dict) and specific.get("permissionDecision"):
        return HookDecision(specific["permissionDecision"], specific.get("permissionDecisionReason") or "")
    if reply.get("decision") == "block":
        return HookDecision(DENY, reply.get("reason") or "")
    return HookDecision()


class SimulatedStreamJson(StickyEngine):
    """An engine that reads messages from the user and prints what happens."""

    def __init__(self, *engine: Any) -> None:
        super().__init__(*engine)
        described = self.simulation.sticky.stream_json
        if described is None:
            raise NotFoundError(f"there is no simulation of {self.contract.engine} with messages as JSON lines")
        self.records, self.after_refusal = described, described.after_refusal
        self._forced = OTHER_MODE if self.faults.wrong_mode else None
        approval = self.contract.sticky.interactive
        self._mode = self.start.mode or self.simulation.sticky.starts_in or (approval.mode if approval else None)
        self.hooks = Hooks(self._call_hook)
        self._changed: Message = {}
        self._reason = DECLINED
        self._denials: list[Message] = []

    @property
    def mode(self) -> str | None:
        """The permission mode."""
        return self._forced or self._mode

    def serve(self) -> Never:
        """Open the session that the arguments name, and answer the client until the process ends."""
        start, sessions = self.start, store(self.contract, self.world.env, self.world.cwd)
        if start.session and "in-use" in self.simulation.arguments.refusals and sessions.find(start.session):
            raise UsageProblem("in-use", f"the session {start.session} exists", value=start.session)
        handle = start.resume or (sessions.in_order(self.world.cwd) if start.by_order else None)
        if handle is None:
            self.open(handle=start.session)
        elif (found := self.load(handle)) is None:
            self._lose(handle)
        elif start.forks:
            self.open(handle=start.session).messages.extend(found.messages)
        super().serve()

    def hear(self, message: Message) -> None:
        """Answer a control request, or run a turn."""
        match message.get("type"):
            case "control_request":
                self._control(message)
            case "user":
                prompt = received(UserMessage, message)
                self._run(text_of(prompt.message.content) if prompt else "")

    def stops(self, message: Message) -> bool:
        """Whether a message interrupts the turn, which is confirmed."""
        stops = message.get("type") == "control_request" and dict_at(message, "request").get("subtype") == "interrupt"
        if stops:
            self._control(message)
        return stops

    def tell_action(self, call: Called, *, done: bool | None, result: str = "") -> None:
        """Report that the agent uses a tool, or the result."""
        slots = self._slots(call)
        if done is None:
            self._print(self.records.called, slots)
        elif done:
            self._run_hooks("PostToolUse", slots, call.tool)
            self._print(self.records.done, {**slots, "result": fill(self.records.success, slots)})
        else:
            self._denials += [fill_all(self.records.denial, slots)] if self.refused else []
            self._print(self.records.refused, {**slots, "result": result})

    def permitted(self, call: Called) -> tuple[Called, str | None]:
        """Let the client's hooks decide, or else the user, who may change the arguments."""
        slots = self._slots(call)
        verdict = self._run_hooks("PreToolUse", slots, call.tool)
        asks = verdict.decision == ASK or (verdict.decision is None and self.approval != "act")
        if verdict.decision == DENY:
            return call, verdict.reason
        if not asks or self.faults.acts_unasked:
            return call, None
        if self.approval == "refuse":
            return call, str(fill(self.records.nobody, slots))
        if self.grants(call):
            return (replace(call, changed=self._changed) if self._changed else call), None
        return call, str(fill(self.records.denied, {**slots, "reason": self._reason}))

    def permission_request(self, kind: str, call: Called, once: OneTime) -> tuple[object, Message]:  # noqa: ARG002
        """Return a control request with a new id."""
        return self._requested({"subtype": "can_use_tool", **fill_all(self.records.asked, self._slots(call))})

    def unknown_request(self) -> tuple[object, Message]:
        """Return a control request of an unknown kind."""
        return self._requested({"subtype": "turngate_unknown"})

    def answered(self, message: Message) -> object:
        """Return the id of the control request that a message answers."""
        return dict_at(message, "response").get("request_id")

    def is_granted(self, answer: Message, once: OneTime) -> bool:  # noqa: ARG002 - the protocol has its own words
        """Whether the client allows the action."""
        decision = received(ToolDecision, dict_at(answer, "response").get("response")) or ToolDecision(DENY)
        self._changed, self._reason = dict(decision.updated_input or {}), decision.message or DECLINED
        return decision.behavior == "allow"

    def _control(self, message: Message) -> None:
        request = dict_at(message, "request")
        answer = ControlAnswer(message.get("request_id"), "success")
        match request.get("subtype"):
            case "set_permission_mode":
                self._mode = str(request.get("mode"))
                answer = replace(answer, response={"mode": self.mode})
            case "set_model":
                self.model = str(request.get("model") or self.start.model)
                answer = replace(answer, response={"model": self.model})
            case "initialize":
                self.hooks.registered = dict_at(request, "hooks")
                answer = replace(answer, response=fill_all(self.records.initialized, self._slots()))
            case str() as known if known in self.records.controls:
                answer = replace(answer, response=fill_all(self.records.controls[known], self._slots()))
            case "interrupt":
                pass
            case other:
                answer = replace(answer, subtype="error", error=f"Unsupported control request subtype: {other}")
        self.client.write(sent(ControlResponse(answer)))

    def _run(self, prompt: str) -> None:
        self.begin(prompt)
        self._denials = []
        end: str | Failed | None = None
        with suppress(CancelledTurn):
            self._run_hooks("UserPromptSubmit", {**self._slots(), "text": prompt})
            self._print(self.records.started, self._slots())
            end = self.turn(prompt)
        slots = {**self._slots(), "text": end}
        if end is None:
            self._print(self.records.interrupted, slots)
        elif isinstance(end, Failed):
            self._print(self.records.failed, {**slots, "error": end.error, "status": end.status})
        else:
            partial = self.records.partial_option in self.start.options
            *reported, last = self.records.answered
            self._print((*self.records.partial, *reported, *self.records.partial_end) if partial else reported, slots)
            self._run_hooks("Stop", slots)
            self._print([last], slots)
        self.turn_told()

    def _lose(self, handle: str) -> Never:
        """Refuse to resume a session, once the client has sent its first message."""
        self.client.read()
        lost, slots = self.records.lost, {**self._slots(), "handle": handle}
        self._print(lost.records, slots)
        self.world.write("stderr", str(fill(lost.stderr, slots)).encode())
        raise SystemExit(lost.exit_code)

    def _call_hook(self, callback: str, event: Message) -> Message:
        """Run a hook of the client, and return what it says."""
        about = {"callback_id": callback, "input": event, "tool_use_id": event.get("tool_use_id")}
        number, request = self._requested({"subtype": "hook_callback", **about})
        self.client.write(request)
        return dict_at(dict_at(self.client.wait_for([number]), "response"), "response")

    def _run_hooks(self, name: str, slots: Slots, tool: str = "") -> HookDecision:
        """Run the client's hooks of an event, if the engine has such an event."""
        if name not in self.records.hooks:
            return HookDecision()
        event = {**self.records.hook_input, "hook_event_name": name, **self.records.hooks[name]}
        return self.hooks.run(name, fill_all(event, slots), tool)

    def _requested(self, request: Message) -> tuple[str, Message]:
        number = str(fill("{uuid}", {}))
        return number, sent(ControlRequest(number, request))

    def _slots(self, call: Called | None = None) -> Slots:
        """Return what is known of the session and the turn, and of a call of the contract's tool."""
        about: Slots = {
            "handle": self.session.handle,
            "cwd": self.session.cwd,
            "model": self.model,
            "mode": self.mode,
            "version": self.contract.version or "0.0.0",
            "requests": self.requests,
            "denials": self._denials,
        }
        tool = self.contract.hermetic.tool_call
        return {**about, **slots_of(call, tool, self.session.cwd)} if call and tool else about

    def _print(self, records: Iterable[Record], slots: Slots) -> None:
        for record in records:
            self.client.write(fill_all(record, slots))
