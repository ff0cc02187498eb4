"""The turns of one simulated process: its session, its model and its tool, whatever protocol it speaks."""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from turngate.contract.launch import PermissionMode
from turngate.contract.simulation import Simulation
from turngate.contract.structs import EngineContract
from turngate_probes.simulate.backend import Called, EngineContext, Failed, ModelText
from turngate_probes.simulate.model import OFFERED, Acted, Model
from turngate_probes.simulate.printing import fill
from turngate_probes.simulate.sticky import faults
from turngate_probes.simulate.sticky.client import EndedError
from turngate_probes.simulate.store import Session, shelf

Approval = Literal["ask", "act", "refuse"]
DIED = 1


@dataclass(frozen=True, slots=True)
class Action:
    """What the model wants to do: a tool, its arguments, and `text`, which says it in short."""

    call_id: str
    tool: str
    arguments: Mapping[str, Any]
    text: str


@dataclass(frozen=True, slots=True)
class SimulatedTurn:
    """How a turn ended: the agent's text, empty where a refused action ended it, or the backend's failure."""

    text: str = ""
    failure: Failed | None = None


@dataclass(frozen=True, slots=True)
class Talk:
    """What a protocol offers to a turn.

    `called` tells of an action that the model wants, `acted` of what came of it: whether it was done. `permit` asks
    the user for it, by so many requests at once, and tells whether all of them were granted.
    """

    called: Callable[[Action], None]
    permit: Callable[[Action, int], bool]
    acted: Callable[[Action, bool], None]


@dataclass
class StickyEngine:
    """One process; `model` and `mode` may change between turns, `fields` are those by which its session was opened."""

    contract: EngineContract
    simulation: Simulation
    world: EngineContext
    options: Sequence[str]
    model: str
    mode: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    _session: Session | None = None
    _turns: int = 0

    def open(self, cwd: object = None) -> Session:
        """Open a session in a directory, the process's own unless it is text."""
        where = cwd if isinstance(cwd, str) else self.world.cwd
        self._session = Session(str(fill(self.simulation.handle, {})), where, self.world.clock())
        return self._session

    @property
    def session(self) -> Session:
        """The session, opened on first use."""
        return self._session or self.open()

    def turn(self, prompt: str, talk: Talk) -> SimulatedTurn:
        """Run a turn in the session and keep it where a headless resume finds it."""
        self._turns += 1
        if faults.DIES_IN_TURN in self.world.faults:
            self._die("it died during a turn")
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
        answer = model.ask(session.messages, lambda call: self._act(call, talk))
        if isinstance(answer, Failed):
            if answer.kind in self.simulation.hangs:
                self.world.hang()
            return SimulatedTurn(failure=answer)
        text = answer.text if isinstance(answer, ModelText) else ""
        session.messages.append({"role": "assistant", "content": text})
        self._keep(session)
        return SimulatedTurn(text)

    def turn_told(self) -> None:
        """Take note that the client was told of the end of a turn."""
        if faults.DIES_AFTER_TURN in self.world.faults:
            self._die("it died after its first turn")

    @property
    def approval(self) -> Approval:
        """What it does before it acts: it asks if all holds that the contract says of mode interactive.

        Without the options that name who is asked it refuses.
        """
        stance = self.contract.sticky.interactive
        if stance is None:
            return "act"
        if not _within(stance.options, self.options):
            return "refuse"
        return "ask" if self._is_in(stance) else "act"

    @property
    def stance(self) -> PermissionMode:
        """The stance in force: that of mode auto if the session was opened by its fields, else that of interactive."""
        kept = self.contract.sticky
        if kept.auto and kept.auto.session and kept.auto.session.items() <= self.fields.items():
            return kept.auto
        return kept.interactive or PermissionMode()

    def _is_in(self, stance: PermissionMode) -> bool:
        by_env = all(self.world.env.get(name) == value for name, value in stance.env.items())
        return by_env and self.mode == stance.mode and self.stance is stance

    def _act(self, call: Called, talk: Talk) -> Acted:
        """Do what the contract's tool does, if that is allowed."""
        tool = self.contract.hermetic.tool_call
        if tool is None or call.tool != tool.name:
            return Acted(f"there is no tool {call.tool}")
        action, approval = action_of(call), self.approval
        talk.called(action)
        if approval == "ask" and faults.ACTS_UNASKED not in self.world.faults:
            allowed = talk.permit(action, 2 if faults.ASKS_TWICE in self.world.faults else 1)
        else:
            allowed = approval != "refuse"
        failure = self._touch(tool.creates_file) if allowed else None
        talk.acted(action, allowed and failure is None)
        if allowed:
            return Acted(failure or "done")
        return Acted("the user refused", ends=self.simulation.sticky.after_refusal == "ends")

    def _touch(self, name: str) -> str | None:
        """Write the file that the tool leaves, and return what kept it from that."""
        try:
            Path(self.session.cwd, Path(name).name).write_text("simulated\n", "utf-8")
        except (OSError, ValueError) as error:
            return f"{name} can't be written: {error}"
        return None

    def _keep(self, session: Session) -> None:
        if self.contract.sticky.same_id and not self.contract.sticky.own_store:
            shelf(self.contract, self.world.env, session.cwd).keep(session)

    def _die(self, words: str) -> None:
        self.world.write("stderr", f"{words}, as it was told to\n".encode())
        raise EndedError(DIED)


def action_of(call: Called) -> Action:
    """Read what a tool call is about."""
    text = next(iter(call.arguments.values()), "")
    said = shlex.join(map(str, text)) if isinstance(text, list) else text if isinstance(text, str) else json.dumps(text)
    return Action(call.call_id, call.tool, call.arguments, said)


def _within(part: Sequence[str], whole: Sequence[str]) -> bool:
    """Whether tokens stand in others, in a row."""
    return any(tuple(whole[i : i + len(part)]) == tuple(part) for i in range(len(whole) - len(part) + 1))
