"""One call of a simulated engine: from its arguments to what it prints and its exit code."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from turngate.contract.simulation import Ending, Line, Simulation
from turngate.contract.structs import EngineContract
from turngate.errors import EnvironmentFailed
from turngate_probes.simulate import arguments, printing
from turngate_probes.simulate.arguments import Asked, UsageProblem
from turngate_probes.simulate.backend import Acted, Answer, Called, EngineContext, Failed, Message, Model, ModelText
from turngate_probes.simulate.printing import fill, rendered
from turngate_probes.simulate.sticky.acp import SimulatedAcp
from turngate_probes.simulate.sticky.app_server import SimulatedAppServer
from turngate_probes.simulate.sticky.engine import EndedError, StickyEngine
from turngate_probes.simulate.sticky.stream_json import SimulatedStreamJson
from turngate_probes.simulate.store import Session, shelf

TOOL_RESULT = "the simulation runs no tools"

# what a session that can't be resumed leads to, and the clause that a deviation from a refusal is declared for
_NO_SESSION = {"dead": "resume.dead-handle", "malformed": "resume.malformed-handle"}
_TRANSPORTS: Mapping[str, type[StickyEngine]] = {
    "acp": SimulatedAcp, "app_server": SimulatedAppServer, "stream_json": SimulatedStreamJson,
}  # fmt: skip


def run(contract: EngineContract, argv: tuple[str, ...], world: EngineContext) -> int:
    """Run the simulated release and give its exit code; EnvironmentFailed if the contract does not describe it."""
    simulation = printing.simulation(contract)
    if simulation is None:
        hint = f"describe it in simulations/{contract.engine}.yaml"
        raise EnvironmentFailed(f"nobody described how {contract.engine} {contract.version} prints", hint)
    if argv == contract.version_query.argv:
        said = fill(simulation.version, {"version": contract.version or "0.0.0"})
        world.write(contract.version_query.stream, f"{said}\n".encode())
        return 0
    for page in contract.help.pages:
        if argv == page.argv:
            words = "".join(f"  {name}\n" for name in page.names)
            world.write(page.stream, f"{contract.title} (simulated)\n\n{words}".encode())
            return 0
    if (shown := _configuration(contract, argv, world.env)) is not None:
        world.write("stdout", shown)
        return 0
    return _Call(contract, simulation, world).run(argv)


@dataclass
class _Call:
    """A call that is to run a turn; `facts` are the conditions that lines may ask for, `slots` what fills them."""

    contract: EngineContract
    simulation: Simulation
    world: EngineContext
    facts: set[str] = field(default_factory=set)
    slots: dict[str, str | int] = field(default_factory=dict)

    def run(self, argv: tuple[str, ...]) -> int:
        """Read the arguments and the prompt, then run the turn."""
        try:
            if arguments.is_sticky(self.contract, argv):
                return self._serve(argv)
            asked = arguments.read(self.contract, argv)
            prompt = self._prompt(asked)
        except UsageProblem as problem:
            return self._misused(problem)
        self._begin(asked, prompt)
        return self._open(asked, prompt)

    def _serve(self, argv: tuple[str, ...]) -> int:
        """Run turns in one process until the client ends it; EnvironmentFailed if the contract names no protocol."""
        transport = _TRANSPORTS.get(self.contract.sticky.transport)
        if transport is None:
            what = f"{self.contract.engine} can't keep a process"
            raise EnvironmentFailed(what, "its contract names no transport")
        options, model = arguments.read_sticky(self.contract, argv)
        try:
            transport(self.contract, self.simulation, self.world, options, model).serve()
        except EndedError as ended:
            return ended.exit_code

    def _begin(self, asked: Asked, prompt: str) -> None:
        """Note what the arguments ask for."""
        self.slots |= {"version": self.contract.version or "0.0.0", "cwd": self.world.cwd, "handle": "", "status": 1}
        self.slots |= {"model": asked.model, "prompt": prompt}
        self.facts = {"start" if asked.handle is None else "resume", "auto" if asked.auto else "interactive"}

    def _misused(self, problem: UsageProblem) -> int:
        self.slots |= {"cwd": self.world.cwd, "handle": "", "error": str(problem)}
        return self._end(self.simulation.usage)

    def _prompt(self, asked: Asked) -> str:
        """Take the prompt from where it is; some releases read standard input whatever the arguments hold."""
        reads = asked.prompt is None or self._symptom("stdin.open") == "hang"
        read = self.world.stdin.read() if reads else b""
        prompt = read.decode("utf-8", "replace") if asked.prompt is None else asked.prompt
        if why := arguments.refusal(asked.channel, prompt):
            raise UsageProblem(why)
        return prompt

    def _open(self, asked: Asked, prompt: str) -> int:
        """Find or make the session, and run the turn unless the session can't be resumed."""
        if asked.handle is None:
            return self._turn(self._fresh(), asked, prompt)
        existing = self._found(asked.handle)
        trouble, symptom = self._trouble(asked.handle, existing)
        self.slots |= {"handle": asked.handle, "error": f"no session {asked.handle}"}
        if symptom is None:
            return self._turn(existing or self._fresh(), asked, prompt)
        self.facts.add(trouble)
        return self._unresumed(symptom, existing, asked, prompt)

    def _unresumed(self, symptom: str, existing: Session | None, asked: Asked, prompt: str) -> int:
        """Refuse to resume, or do what the declared deviation says instead."""
        if symptom == "fresh-session":
            return self._turn(self._fresh(), asked, prompt)
        if symptom == "late" or (symptom == "hang" and existing):
            session = existing or self._fresh()
            self._ask([*session.messages, {"role": "user", "content": prompt}], asked)
        if symptom == "hang":
            self.world.hang()
        if symptom == "quiet":
            self._print(self.simulation.nonexistent_id.lines)
            return 0
        return self._end(self.simulation.nonexistent_id)

    def _found(self, handle: str) -> Session | None:
        """Look for a session, which some releases lose when they are asked for it in a later minute."""
        store = shelf(self.contract, self.world.env, self.world.cwd)
        existing = store.find(handle)
        if existing and self._is_later(existing) and self._symptom("resume.later-minute") == "lost-at-once":
            store.drop(existing)
            return None
        return existing

    def _trouble(self, handle: str, existing: Session | None) -> tuple[str, str | None]:
        """Return what is wrong with resuming a session, and how it shows (None: it can be resumed)."""
        if existing is None:
            trouble = "dead" if re.fullmatch(self.contract.handle.shape, handle) else "malformed"
            return trouble, self._symptom(_NO_SESSION[trouble]) or "refused"
        elsewhere = existing.cwd != self.world.cwd
        return "elsewhere", self._symptom("resume.other-cwd") if elsewhere else None

    def _turn(self, session: Session, asked: Asked, prompt: str) -> int:
        """Run a turn in a session and keep both."""
        store = shelf(self.contract, self.world.env, self.world.cwd)
        self._age(session)
        if "resume" in self.facts and self._symptom("resume.same-handle") == "new-handle":
            session.handle = self._fresh().handle
        loaded = len(session.messages)
        self.slots |= {name: fill(form, {}) for name, form in self.simulation.ids.items()}
        self.slots |= {"handle": session.handle, "messages": loaded}
        session.messages.append({"role": "user", "content": prompt})
        self.slots["turn"] = sum(message["role"] == "user" for message in session.messages)
        store.keep(session)
        self._print(self.simulation.started)
        answer = self._ask(session.messages, asked)
        if isinstance(answer, Failed):
            return self._failed(answer)
        text = answer.text if isinstance(answer, ModelText) else ""
        session.messages.append({"role": "assistant", "content": text})
        store.keep(session)
        self.slots["text"] = text
        self._print(self.simulation.answered)
        return 0

    def _age(self, session: Session) -> None:
        """Note that a session is resumed in a later minute; some releases then lose it to the next one beside it."""
        store = shelf(self.contract, self.world.env, self.world.cwd)
        session.reopened = session.reopened or self._is_later(session)
        if self._symptom("resume.later-minute") == "lost-after-another":
            for other in list(store.beside(session)):
                if other.reopened:
                    store.drop(other)

    def _is_later(self, session: Session) -> bool:
        return self.world.clock() // 60 > session.began_at // 60

    def _ask(self, messages: list[Message], asked: Asked) -> Answer:
        """Ask the model until it says something; a tool that it calls is told to do nothing."""
        return Model(self.contract, self.world.backend, asked.model, asked.auto).ask(messages, self._called)

    def _called(self, call: Called) -> Acted:
        self.slots |= {"tool": call.tool, "call_id": call.call_id}
        self._print(self.simulation.called)
        return Acted(TOOL_RESULT)

    def _failed(self, failed: Failed) -> int:
        """Tell of a failing backend, or hang, or take it for a success, as the contract declares."""
        self.facts.add(failed.kind)
        self.slots |= {"error": failed.error, "status": failed.status, "text": ""}
        told = [d for d in self.contract.deviations if d.clause == "backend.failure-told"]
        declared = {d.symptom for d in told if not d.flaky}
        self._print(self.simulation.retrying)
        if f"hang-{failed.kind}" in declared or failed.kind in self.simulation.hangs:
            self.world.hang()
        if f"success-{failed.kind}" in declared:
            self._print(self.simulation.unanswered)
            return 0
        if f"exit-0-{failed.kind}" in declared:
            self._print(self.simulation.failed.lines)
            return 0
        return self._end(self.simulation.failed)

    def _fresh(self) -> Session:
        return Session(str(fill(self.simulation.handle, {})), self.world.cwd, self.world.clock())

    def _symptom(self, clause: str) -> str | None:
        return next((deviation.symptom for deviation in self.contract.deviations if deviation.clause == clause), None)

    def _end(self, ending: Ending) -> int:
        self._print(ending.lines)
        if ending.exit_code == "status":
            return int(self.slots["status"]) % 256 or 1
        return ending.exit_code

    def _print(self, lines: Iterable[Line]) -> None:
        for stream, data in rendered(self.contract, lines, self.facts, self.slots):
            self.world.write(stream, data)


def _configuration(contract: EngineContract, argv: tuple[str, ...], env: Mapping[str, str]) -> bytes | None:
    """Return what the contract's command prints of the configuration in force; None if it is another command.

    That is what the variables hold by which a process is made to ask, or that it acts without asking.
    """
    stance = contract.sticky.interactive
    if stance is None or stance.query is None or argv != stance.query.argv:
        return None
    asked = [env[name] for name in stance.env if name in env]
    in_force = json.loads(asked[0]) if asked else {"*": "allow"}
    return json.dumps({stance.query.key: in_force}, indent=2).encode() + b"\n"
