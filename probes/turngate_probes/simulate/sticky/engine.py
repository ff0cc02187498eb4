"""The turns of one simulated process, with its session, model, tool and client, in any protocol."""

import json
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Never, TypeAlias

from turngate import EngineContract
from turngate.contract.launch import OneTime, PermissionMode
from turngate.contract.simulation import Simulation
from turngate_probes.simulate.backend import OFFERED, Acted, Called, EngineContext, Failed, Model
from turngate_probes.simulate.printing import fill
from turngate_probes.simulate.sticky import faults
from turngate_probes.simulate.store import Session, store

Approval = Literal["ask", "act", "refuse"]
Message: TypeAlias = dict[str, Any]
DIED = 1
_NOISE = b"Loading plugins...\n"


class StickyEngine(ABC):
    """One process; `model` and `mode` may change between turns, `fields` opened its session.

    Its client sends and receives JSON messages, one per line. A subclass speaks a protocol.
    """

    def __init__(
        self, contract: EngineContract, simulation: Simulation, world: EngineContext, options: Sequence[str], model: str
    ) -> None:
        self.contract, self.simulation, self.world = contract, simulation, world
        self.options, self.model = options, model
        self.mode: str | None = None
        self.fields: Mapping[str, Any] = {}
        self._session: Session | None = None
        self._turns = 0
        self._postponed: deque[Message] = deque()

    @abstractmethod
    def hear(self, message: Message) -> None:
        """Handle an unsolicited message from the client."""

    @abstractmethod
    def tell_action(self, call: Called, *, done: bool | None) -> None:
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
        while True:
            self.hear(self._postponed.popleft() if self._postponed else self._read())

    def write(self, message: Message) -> None:
        """Send a message."""
        noise = _NOISE if faults.PRINTS_NOISE in self.world.faults else b""
        self.world.write("stdout", noise + json.dumps(message, ensure_ascii=False).encode() + b"\n")

    def open(self, cwd: object = None) -> Session:
        """Open a session in a directory, the process's own unless a text is given."""
        where = cwd if isinstance(cwd, str) else self.world.cwd
        self._session = Session(str(fill(self.simulation.handle, {})), where, self.world.clock())
        return self._session

    @property
    def session(self) -> Session:
        """The session, opened on first use."""
        return self._session or self.open()

    def turn(self, prompt: str) -> str | Failed:
        """Run a turn in the session and save it where a headless resume finds it.

        Return the agent's text (empty if a refused action ended the turn), or the backend's failure.
        """
        self._turns += 1
        if faults.DIES_IN_TURN in self.world.faults:
            self._die("exited during a turn")
        session = self.session
        if faults.CHANGES_SESSION in self.world.faults and self._turns > 1:
            session.handle = str(fill(self.simulation.handle, {}))
        if faults.FORGETS in self.world.faults:
            session.messages.clear()
        session.messages.append({"role": "user", "content": prompt})
        self._keep(session)
        tool = self.contract.hermetic.tool_call
        tools = (OFFERED, tool.name) if tool else (OFFERED,)
        model = Model(self.contract, self.world.backend, self.model, self.approval == "act", tools)
        answer = model.ask(session.messages, self._act)
        if isinstance(answer, Failed):
            if answer.kind in self.simulation.hangs:
                self.world.hang()
            return answer
        text = answer if isinstance(answer, str) else ""
        session.messages.append({"role": "assistant", "content": text})
        self._keep(session)
        return text

    def turn_told(self) -> None:
        """Handle that the end of a turn was reported to the client."""
        if faults.DIES_AFTER_TURN in self.world.faults:
            self._die("exited after its first turn")

    @property
    def approval(self) -> Approval:
        """Return what it does before it acts: it asks if the contract's conditions for mode interactive hold.

        Without the options that name who approves, which are those of mode auto, it refuses.
        """
        stance, asking = self.contract.sticky.interactive, self.contract.sticky.auto
        if stance is None:
            return "act"
        if asking and not _within(asking.options, self.options):
            return "refuse"
        by_env = all(self.world.env.get(name) == value for name, value in stance.env.items())
        return "ask" if by_env and self.mode == stance.mode and self.stance is stance else "act"

    @property
    def stance(self) -> PermissionMode:
        """The permission mode in force: that of mode auto if its fields opened the session, else the other one."""
        kept = self.contract.sticky
        if kept.auto and kept.auto.session and kept.auto.session.items() <= self.fields.items():
            return kept.auto
        return kept.interactive or PermissionMode()

    def _act(self, call: Called) -> Acted:
        """Do what the contract's tool does, if that is allowed."""
        tool = self.contract.hermetic.tool_call
        if tool is None or call.tool != tool.name:
            return Acted(f"there is no tool {call.tool}")
        approval = self.approval
        self.tell_action(call, done=None)
        asks = approval == "ask" and faults.ACTS_UNASKED not in self.world.faults
        allowed = self._permitted(call) if asks else approval != "refuse"
        failure = self._touch(tool.creates_file) if allowed else None
        self.tell_action(call, done=allowed and failure is None)
        if allowed:
            return Acted(failure or "done")
        return Acted("the user declined", ends=self.simulation.sticky.after_refusal == "ends")

    def _permitted(self, call: Called) -> bool:
        """Ask the user to permit an action, and return whether everything was granted."""
        kinds, once = self.contract.sticky.permission_requests, self.contract.sticky.one_time
        if not kinds or once is None:
            return False
        unanswered = []
        for _ in range(2 if faults.ASKS_TWICE in self.world.faults else 1):
            number, request = self.permission_request(kinds[0], call, once)
            unanswered.append(number)
            self.write(request)
        granted = True
        while unanswered:
            message = self._read()
            if self.answered(message) in unanswered:
                unanswered.remove(self.answered(message))
                granted = self.is_granted(message, once) and granted
            else:
                self._postponed.append(message)
        return granted

    def _read(self) -> Message:
        """Return the next message; SystemExit at the end of the input. Anything but a JSON object is ignored."""
        while line := self.world.stdin.readline():
            try:
                message = json.loads(line)
            except ValueError:
                message = None
            if isinstance(message, dict):
                return message
            self.world.write("stderr", b"a line of the input is not a JSON object\n")
        if faults.IGNORES_TERMINATION in self.world.faults:
            self.world.hang()
        raise SystemExit(0)

    def _touch(self, name: str) -> str | None:
        """Write the file that the tool creates, and return the error if that fails."""
        try:
            Path(self.session.cwd, Path(name).name).write_text("simulated\n", "utf-8")
        except (OSError, ValueError) as error:
            return f"{name} can't be written: {error}"
        return None

    def _keep(self, session: Session) -> None:
        if self.contract.sticky.same_id and not self.contract.sticky.own_store:
            store(self.contract, self.world.env, session.cwd).keep(session)

    def _die(self, words: str) -> None:
        self.world.write("stderr", f"{words}, as requested\n".encode())
        raise SystemExit(DIED)


def text_of(content: object) -> str:
    """Return the text of a message's content: a string, or blocks of which some have a `text`."""
    if isinstance(content, list):
        return "\n".join(str(block["text"]) for block in content if isinstance(block, dict) and "text" in block)
    return str(content or "")


def dict_at(message: Message, key: str) -> Message:
    """Return the object under a key of a message; an empty one if there is none."""
    value = message.get(key)
    return value if isinstance(value, dict) else {}


def _within(part: Sequence[str], whole: Sequence[str]) -> bool:
    """Whether tokens occur in others as a contiguous run."""
    return any(tuple(whole[i : i + len(part)]) == tuple(part) for i in range(len(whole) - len(part) + 1))
