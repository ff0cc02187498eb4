"""The turns of one simulated process, with its session, model, tool and client, in any protocol."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Never

from turngate import EngineContract
from turngate.contract.launch import OneTime
from turngate.contract.simulation import Simulation
from turngate_probes.simulate.backend import (
    OFFERED,
    Acted,
    Answer,
    Called,
    EngineContext,
    Failed,
    Model,
    ModelRequest,
    call_of,
)
from turngate_probes.simulate.faults import LEFT_ALONE
from turngate_probes.simulate.misbehaviour import BLANK, OWN_PROMPT, flood, unknown
from turngate_probes.simulate.printing import fill
from turngate_probes.simulate.sticky import tool_calls
from turngate_probes.simulate.sticky.message_queue import Message
from turngate_probes.simulate.sticky.process_start import Approval, ProcessStart, approval
from turngate_probes.simulate.sticky.sticky_client import CancelledTurn, Client
from turngate_probes.simulate.store import SimulatedSession, store

DIED = 1
DECLINED = "the user declined"
DONE = "done"
BUSY = "busy"
BEAT = 0.5  # seconds between two signs of life
OTHER_MODE = "another"
DEPTH, DIGITS = 900, 400


class StickyEngine(ABC):
    """One process; `model` and `mode` may change between turns, `fields` opened its session.

    Its client sends and receives JSON messages, one per line. A subclass speaks a protocol.
    """

    def __init__(
        self, contract: EngineContract, simulation: Simulation, world: EngineContext, start: ProcessStart
    ) -> None:
        self.contract, self.simulation, self.world, self.start = contract, simulation, world, start
        self.model = start.model
        self.fields: Mapping[str, Any] = {}
        self.requests = 0
        self.refused = False
        self.after_refusal = simulation.sticky.after_refusal
        self._session: SimulatedSession | None = None
        self._turns = 0
        self._prompted = ""
        self.faults = world.faults_in(0, "")
        self.client = Client(world, self)

    @abstractmethod
    def hear(self, message: Message) -> None:
        """Handle an unsolicited message from the client."""

    @abstractmethod
    def tell_action(self, call: Called, *, done: bool | None, result: str = "") -> None:
        """Report an action that the model wants to the client, and later whether it was done; None: not yet."""

    @abstractmethod
    def permission_request(self, kind: str, call: Called, once: OneTime) -> tuple[object, Message]:
        """Return a request for permission, and the id for its answer."""

    @abstractmethod
    def answered(self, message: Message) -> object:
        """Return the id of the request that a message answers; None if it is not an answer."""

    @abstractmethod
    def is_granted(self, answer: Message, once: OneTime) -> bool:
        """Whether an answer grants permission."""

    def serve(self) -> Never:
        """Answer the client until the process ends, which raises SystemExit."""
        tool = self.contract.hermetic.tool_call
        if self.faults.asks_on_signal and tool:
            self.world.on_signal(lambda: self.send_requests(call_of(tool), 1))
        while True:
            message = self.client.read()
            if self._turns and self.faults.dies_at_reply:
                self._die("exited at a message after its first turn")
            turns = self._turns
            self.hear(message)
            if self.faults.goes_on_by_itself and self._turns > turns:
                own = {"id": OWN_PROMPT} if "id" in message else {}
                self.hear({**_with_prompt(message, self._prompted), **own})

    def open(self, cwd: object = None, handle: str | None = None) -> SimulatedSession:
        """Open a session in a directory, the process's own unless a text is given, under a new id or the given one."""
        where = cwd if isinstance(cwd, str) else self.world.cwd
        self._session = SimulatedSession(handle or str(fill(self.simulation.handle, {})), where, self.world.clock())
        return self._session

    def load(self, handle: str, cwd: object = None) -> SimulatedSession | None:
        """Continue a session that was saved; None if there is none of that id."""
        where = cwd if isinstance(cwd, str) else self.world.cwd
        saved = store(self.contract, self.world.env, where).find(handle)
        if saved is None:
            return None
        asked = sum(message["role"] == "user" for message in saved.messages)
        match self.world.faults_in(asked + 1, "").session:
            case "lost":
                return None
            case "fresh":
                return self.open(cwd)
        self._session = saved
        return saved

    @abstractmethod
    def unknown_request(self) -> tuple[object, Message]:
        """Return a request of a kind that nobody knows, and the id for its answer."""

    def unknown_message(self, about: Message) -> Message:
        """Return a message of a kind that nobody knows."""
        return about

    @property
    @abstractmethod
    def mode(self) -> str | None:
        """The permission mode, as the protocol names it."""

    @property
    def session(self) -> SimulatedSession:
        """The session, opened on first use."""
        return self._session or self.open()

    def spoiled(self, message: Message) -> Message:
        """Return a message without the session id if a fault takes it out."""
        hidden = self.faults.session_id is not None and self._session is not None
        return _without(message, self.session.handle) if hidden else message

    def begin(self, prompt: str) -> None:
        """Count a turn, and do what goes wrong before the prompt is answered."""
        self._turns += 1
        self._prompted = prompt
        self.requests = 0
        faults = self.faults = self.world.faults_in(self._turns, prompt)
        if faults.unknown or faults.padding:
            self.client.write(self.unknown_message(unknown(faults)))
        for line in flood(faults):
            self.world.write(*line)
        if faults.child in LEFT_ALONE:
            self.world.leave({} if faults.child == "hidden" else self.world.env)
        time.sleep(faults.delay)
        if faults.dies_in_turn:
            self._die("exited during a turn")
        while faults.hang == "heartbeat":
            self.client.write(self.unknown_message(unknown(faults)))
            time.sleep(BEAT)
        if faults.closes:
            self.world.close(faults.closes)
        if faults.closes or faults.hang == "before":
            self.world.hang()

    def stops(self, message: Message) -> bool:  # noqa: ARG002 - some protocols have no such message
        """Whether a message cancels the turn that runs; it is then answered."""
        return False

    def turn(self, prompt: str, session: SimulatedSession | None = None) -> str | Failed | None:
        """Run the turn that has begun, in another session if given, and save it where a headless resume finds it.

        Return the agent's text (empty if a refused action ended the turn), the backend's failure, or None if the client
        cancelled the turn.
        """
        if self.faults.refuses_prompt:
            return Failed("refused", BUSY)
        session = self._session = session or self.session
        if self.faults.session == "lost" and session.messages:
            return Failed("lost", f"there is no session {session.handle}")
        session = self._faulty_session(session)
        self.world.in_session(session.handle, session.cwd)
        session.messages.append({"role": "user", "content": prompt})
        self._keep(session)
        tool = self.contract.hermetic.tool_call
        tools = (OFFERED, tool.name) if tool else (OFFERED,)
        model = Model(self.contract, self._ask, self.model, self.approval == "act", tools, self.tell_retry)
        try:
            if self.faults.asks_unknown:
                number, request = self.unknown_request()
                self.client.write(request)
                self.client.wait_for([number])
            time.sleep(self.faults.pause)
            answer = model.ask(session.messages, self._act)
        except CancelledTurn:
            return None
        if isinstance(answer, Failed):
            if answer.kind in self.simulation.hangs:
                self.world.hang()
            return answer
        text = answer if isinstance(answer, str) else ""
        text = "" if self.faults.omits_answer else BLANK if self.faults.blank_answer else text
        session.messages.append({"role": "assistant", "content": text})
        self._keep(session)
        if self.faults.crash or self.faults.omits_end or self.faults.hang == "during":
            self.client.hold()
        return text

    def _faulty_session(self, session: SimulatedSession) -> SimulatedSession:
        """Return the session in which the turn runs, with the faults of sessions."""
        if self.faults.session == "fresh" and session.messages:
            session = self.open(session.cwd)
        if self.faults.changes_session and self._turns > 1:
            session.handle = str(fill(self.simulation.handle, {}))
        if self.faults.forgets:
            session.messages.clear()
        return session

    def tell_retry(self, failed: Failed, attempt: int) -> None:  # noqa: B027 - nothing is the usual report
        """Report that a request is sent again after a failure; most protocols don't."""

    def turn_told(self) -> None:
        """Handle that the end of a turn was reported to the client, or would be if a fault didn't prevent that."""
        if self.client.holds:
            self._cut_short()
        if self.faults.child == "stays":
            self.world.stay()
        if self.faults.hang == "after":
            self.world.hang()
        if self.faults.dies_after_turn:
            self._die("exited after its first turn")

    def _cut_short(self) -> Never:
        """Send a part of the answer, and exit, crash or hang."""
        if self.faults.omits_end:
            self.client.send_all_but_last()
            raise SystemExit(self.faults.exit_code or 0)
        self.client.send_half()
        if self.faults.crash:
            self.world.crash()
        self.world.hang()

    @property
    def approval(self) -> Approval:
        """What it does before it acts."""
        if self.mode in self.simulation.sticky.denies:
            return "refuse"
        if self.faults.asks_anyway:
            return "ask"
        needed, guards = self.simulation.sticky.approval_env, self.contract.guards.options
        options, env = self.start.options, self.world.env
        return approval(self.contract.sticky, options, env, self.mode, self.fields, needed, guards)

    def permitted(self, call: Called) -> tuple[Called, str | None]:
        """Ask whether an action may be done if it must be; return what to do, and why not if it may not."""
        approval = self.approval
        if approval == "refuse":
            return call, DECLINED
        if approval == "ask" and not self.faults.acts_unasked:
            return call, None if self.grants(call) else DECLINED
        return call, None

    def _ask(self, request: ModelRequest) -> Answer:
        """Ask the model; CancelledTurn if the client cancels the turn meanwhile."""
        self.requests += 1
        return self.client.during(lambda: self.world.backend(request))

    def _act(self, call: Called) -> Acted:
        """Do what the contract's tool does, if that is allowed."""
        if self.contract.call_of(call.tool) is None:
            return Acted(f"there is no tool {call.tool}")
        self.refused = False
        self.tell_action(call, done=None)
        if self.faults.abandons_request:
            self.send_requests(call, 1)
            self.tell_action(call, done=False, result=DECLINED)
            return Acted(DECLINED)
        granted, refusal = self.permitted(call)
        self.refused = refusal is not None
        failure = refusal or self.do(granted)
        self.tell_action(call, done=failure is None, result=failure or DONE)
        asked = self.mode not in self.simulation.sticky.denies
        return Acted(failure or DONE, ends=self.refused and asked and self.after_refusal == "ends")

    def do(self, call: Called) -> str | None:
        """Do what a permitted call of the contract's tool does, and return the error if that fails."""
        tool = self.contract.call_of(call.tool)
        return tool_calls.act(call, tool, self.session.cwd) if tool else None

    def grants(self, call: Called) -> bool:
        """Ask the user to permit an action, and return whether everything was granted."""
        once = self.contract.sticky.one_time
        unanswered = self.send_requests(call, 2 if self.faults.asks_twice else 1)
        if once is None or not unanswered:
            return False
        granted = True
        while unanswered:
            answer = self.client.wait_for(unanswered)
            unanswered.remove(self.answered(answer))
            granted = self.is_granted(answer, once) and granted
        return granted

    def send_requests(self, call: Called, count: int) -> list[object]:
        """Send so many requests for permission at once, and return their ids; none if the contract knows no request."""
        kinds, once = self.contract.sticky.permission_requests, self.contract.sticky.one_time
        if not kinds or once is None:
            return []
        numbers = []
        for _ in range(count):
            number, request = self.permission_request(kinds[0], call, once)
            numbers.append(number)
            odd = {"detail": _ODD[self.faults.odd_request]()} if self.faults.odd_request else {}
            self.client.write({**request, **odd})
        return numbers

    @property
    def is_kept(self) -> bool:
        """Whether the session is saved."""
        sticky = self.contract.sticky
        return self.start.is_kept and sticky.keeps_session_id and not sticky.private_store

    def _keep(self, session: SimulatedSession) -> None:
        if self.is_kept:
            store(self.contract, self.world.env, session.cwd).keep(session)

    def _die(self, words: str) -> None:
        self.world.write("stderr", f"{words}, as requested\n".encode())
        raise SystemExit(DIED if self.faults.exit_code is None else self.faults.exit_code)


def _nested() -> object:
    nested: list[object] = []
    for _ in range(DEPTH):
        nested = [nested]
    return nested


_ODD: Mapping[str, Callable[[], object]] = {"nested": _nested, "digits": lambda: 10**DIGITS}


def _without(document: Any, value: str) -> Any:
    """Return a document without the members that have a value."""
    if isinstance(document, dict):
        return {key: _without(part, value) for key, part in document.items() if part != value}
    return [_without(part, value) for part in document] if isinstance(document, list) else document


def _with_prompt(document: Any, prompt: str) -> Any:
    """Return a message of the client with the engine's own prompt in place of this one."""
    if isinstance(document, dict):
        return {key: _with_prompt(part, prompt) for key, part in document.items()}
    if isinstance(document, list):
        return [_with_prompt(part, prompt) for part in document]
    return OWN_PROMPT if document == prompt else document


def text_of(content: object) -> str:
    """Return the text of a message's content: a string, or blocks of which some have a `text`."""
    if isinstance(content, list):
        return "\n".join(str(block["text"]) for block in content if isinstance(block, dict) and "text" in block)
    return str(content or "")


def dict_at(message: Message, key: str) -> Message:
    """Return the object under a key of a message; an empty one if there is none."""
    value = message.get(key)
    return value if isinstance(value, dict) else {}
