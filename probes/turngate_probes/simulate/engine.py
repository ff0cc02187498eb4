"""One call of a simulated engine: from its arguments to what it prints and its exit code."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

from turngate import EngineContract, EnvironmentFailed
from turngate.argv.unguarded import unguarded
from turngate.contract.simulation import Ending, Line, Simulation
from turngate_probes.simulate import arguments, printing
from turngate_probes.simulate.arguments import Asked
from turngate_probes.simulate.backend import Acted, Answer, Called, EngineContext, Failed, Message, Model
from turngate_probes.simulate.canaries import start_offered
from turngate_probes.simulate.command_line import UsageProblem
from turngate_probes.simulate.printing import fill, rendered
from turngate_probes.simulate.sticky import calls
from turngate_probes.simulate.sticky.start import Start
from turngate_probes.simulate.sticky.start import read as read_start
from turngate_probes.simulate.store import Session, store

TOOL_RESULT = "the simulation runs no tools"

# the outcome for a session that can't be resumed, and the clause whose deviations replace a refusal
_NO_SESSION = {"dead": "resume.dead-handle", "malformed": "resume.malformed-handle"}


def run(contract: EngineContract, argv: tuple[str, ...], world: EngineContext) -> int:
    """Run the simulated release and return its exit code; EnvironmentFailed if the contract does not describe it."""
    simulation = printing.simulation(contract)
    if argv == contract.version_query.argv:
        said = fill(simulation.version, {"version": contract.version or "0.0.0"})
        world.write(contract.version_query.stream, f"{said}\n".encode())
        return 0
    for page in sorted(contract.help.pages, key=lambda page: -len(page.argv)):
        if {*page.argv} <= {*takewhile(lambda token: token != "--", argv)}:
            words = "".join(f"  {name}\n" for name in page.names)
            world.write(page.stream, f"{contract.title} (simulated)\n\n{words}".encode())
            return 0
    if (shown := _configuration(contract, argv, world.env)) is not None:
        world.write("stdout", shown)
        return 0
    try:
        if (start := read_start(contract, argv)) is not None:
            return _serve(contract, simulation, start, world)
        asked = arguments.read(unguarded(contract), argv)
        start_offered(contract, argv, world.env, world.cwd)
        return _Call(contract, simulation, world, asked).run()
    except UsageProblem as problem:
        ending = simulation.arguments.refusals.get(problem.kind, simulation.usage)
        slots = {"cwd": world.cwd, "handle": "", "error": str(problem), **problem.slots}
        facts = ["similar" if problem.slots.get("similar") else "dissimilar"]
        for stream, data in rendered(contract, ending.lines, facts, slots):
            world.write(stream, data)
        return ending.exit_code if isinstance(ending.exit_code, int) else 1


def _serve(contract: EngineContract, simulation: Simulation, start: Start, world: EngineContext) -> int:
    """Run turns in a sticky process until the client ends it; EnvironmentFailed if the contract names no protocol."""
    from turngate_probes.simulate.sticky.transports import TRANSPORTS  # noqa: PLC0415 - a headless turn is faster without

    transport = TRANSPORTS.get(start.transport)
    if transport is None:
        raise EnvironmentFailed(f"{contract.engine} has no sticky process", "its contract names no sticky transport")
    try:
        transport(contract, simulation, world, start).serve()
    except SystemExit as ended:
        return int(ended.code or 0)


class _Call:
    """A call that runs a turn; `facts` are the conditions that lines may depend on, `slots` the values of slots."""

    def __init__(self, contract: EngineContract, simulation: Simulation, world: EngineContext, asked: Asked) -> None:
        self.contract, self.simulation, self.asked = contract, simulation, asked
        self.syntax = simulation.arguments
        self.world = replace(world, cwd=self._directory(world.cwd))
        self.prompt = self._read_prompt()
        self.store = store(contract, world.env, self.world.cwd)
        self.facts = {"start", "auto" if asked.auto else "interactive"}
        self.slots: dict[str, str | int] = {
            "version": contract.version or "0.0.0", "cwd": self.world.cwd, "handle": "", "status": 1,
            "model": asked.model, "prompt": self.prompt,
        }  # fmt: skip

    def _directory(self, cwd: str) -> str:
        """Return the working directory that the options choose; UsageProblem if that or another file is missing."""
        chosen, needed = (
            self.asked.line.last(name) for name in (self.syntax.working_directory, self.syntax.existing_file)
        )
        if chosen and not Path(cwd, chosen).is_dir():
            raise UsageProblem("no-directory", f"there is no directory {chosen}", value=chosen)
        if needed and not Path(cwd, needed).is_file():
            raise UsageProblem("no-file", f"there is no file {needed}", value=needed)
        return str(Path(cwd, chosen).resolve()) if chosen else cwd

    def _read_prompt(self) -> str:
        """Read the prompt; some releases always read standard input."""
        asked, wait = self.asked, self.syntax.input_wait
        waits = wait is not None and self.world.has_input(wait) if asked.prompt is not None else True
        reads = waits or self._symptom("stdin.open") == "hang"
        read = self.world.stdin.read().decode("utf-8", "replace") if reads else ""
        prompt = read if asked.prompt is None else asked.prompt
        if why := arguments.refusal(asked.channel, prompt):
            if not prompt.strip():
                raise UsageProblem("no-prompt", why)
            if asked.prompt is None or self.syntax.spaced == "{argument}":
                raise UsageProblem("prompt", why)
        if asked.prompt is not None and read.strip() and self.syntax.both:
            return self.syntax.both.replace("{argument}", prompt).replace("{stdin}", read)
        return prompt

    def _unmet(self) -> Ending | None:
        """Return how a turn is refused for the lack of an option."""
        inside = Path(self.world.cwd)
        for required in self.syntax.required:
            env, name = required.unless_env, required.unless_inside
            # a release that is started without the option does not know it
            exempt = required.option not in self.contract.launch.start
            exempt = exempt or (bool(env) and env.items() <= self.world.env.items())
            exempt = exempt or (bool(name) and any((folder / name).exists() for folder in (inside, *inside.parents)))
            if not exempt and not self.asked.line.has(required.option, None):
                return required.refusal
        return None

    def run(self) -> int:
        """Find or make the session, and run the turn unless the session can't be resumed."""
        if (ending := self._unmet()) is not None:
            return self._end(ending)
        handle = self.asked.handle
        if self.asked.newest and (sessions := self.store.sessions()):
            handle = max(sessions, key=lambda session: session.began_at).handle
        if handle is None:
            return self._turn(self._fresh())
        self.facts = self.facts - {"start"} | {"resume"}
        existing = self._find(handle)
        trouble, symptom = self._trouble(handle, existing)
        self.slots |= {"handle": handle, "error": f"no session {handle}"}
        if symptom is None:
            return self._turn(existing or self._fresh())
        self.facts.add(trouble)
        if symptom == "fresh-session":
            return self._turn(self._fresh())
        if symptom == "late" or (symptom == "hang" and existing):
            session = existing or self._fresh()
            self._ask([*session.messages, {"role": "user", "content": self.prompt}])
        if symptom == "hang":
            self.world.hang()
        return self._end(self.simulation.nonexistent_id, 0 if symptom == "quiet" else None)

    def _find(self, handle: str) -> Session | None:
        """Return a session, which some releases lose if it is resumed in a later minute."""
        existing = self.store.find(handle)
        if existing and self._is_later(existing) and self._symptom("resume.later-minute") == "lost-at-once":
            self.store.drop(existing)
            return None
        return existing

    def _trouble(self, handle: str, existing: Session | None) -> tuple[str, str | None]:
        """Return what is wrong with resuming a session, and its symptom (None: it can be resumed)."""
        if existing is None:
            trouble = "dead" if re.fullmatch(self.contract.handle.shape, handle) else "malformed"
            return trouble, self._symptom(_NO_SESSION[trouble]) or "refused"
        elsewhere = existing.cwd != self.world.cwd
        return "elsewhere", self._symptom("resume.other-cwd") if elsewhere else None

    def _turn(self, session: Session) -> int:
        """Run a turn in a session and save both."""
        self._age(session)
        if "resume" in self.facts and self._symptom("resume.same-handle") == "new-handle":
            session.handle = self._fresh().handle
        self.slots |= {name: fill(form, {}) for name, form in self.simulation.ids.items()}
        self.slots |= {"handle": session.handle, "messages": len(session.messages)}
        session.messages.append({"role": "user", "content": self.prompt})
        self.slots["turn"] = sum(message["role"] == "user" for message in session.messages)
        self.store.keep(session)
        self._print(self.simulation.started)
        answer = self._ask(session.messages)
        if isinstance(answer, Failed):
            return self._failed(answer)
        text = answer if isinstance(answer, str) else ""
        session.messages.append({"role": "assistant", "content": text})
        self.store.keep(session)
        self.slots["text"] = text
        self._print(self.syntax.plain if self.asked.plain else self.simulation.answered, plain=True)
        if file := self.asked.line.last(self.syntax.answer_file):
            Path(self.world.cwd, file).write_text(text, "utf-8")
        return 0

    def _age(self, session: Session) -> None:
        """Save that a session is resumed in a later minute; some releases then lose it to the next session."""
        session.reopened = session.reopened or self._is_later(session)
        if self._symptom("resume.later-minute") == "lost-after-another":
            for other in self.store.others(session):
                if other.reopened:
                    self.store.drop(other)

    def _is_later(self, session: Session) -> bool:
        return self.world.clock() // 60 > session.began_at // 60

    def _ask(self, messages: list[Message]) -> Answer:
        """Send requests until the model replies with text; a tool that it calls does nothing."""
        model = Model(self.contract, self.world.backend, self.asked.model, self.asked.auto)
        return model.ask(messages, self._called)

    def _called(self, call: Called) -> Acted:
        """Write the file of the contract's tool in mode auto; nothing else is ever done."""
        tool = self.contract.hermetic.tool_call
        known = tool if tool and tool.name == call.tool and self.asked.auto else None
        failure = calls.act(call, known, self.world.cwd) if known else TOOL_RESULT
        self.slots |= {"tool": call.tool, "call_id": call.call_id, "subject": call.text}
        self.facts = self.facts - {"done", "refused"} | {"refused" if failure else "done"}
        self._print(self.simulation.called)
        return Acted(failure or "done")

    def _failed(self, failed: Failed) -> int:
        """Report a failing backend, hang, or treat it as a success, as the contract declares."""
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
        if self._symptom("process.clean-exit") == "lingers":
            self._print(self.simulation.failed.lines)
            self.world.hang()
        return self._end(self.simulation.failed, 0 if f"exit-0-{failed.kind}" in declared else None)

    def _fresh(self) -> Session:
        return Session(str(fill(self.simulation.handle, {})), self.world.cwd, self.world.clock())

    def _symptom(self, clause: str) -> str | None:
        return next((deviation.symptom for deviation in self.contract.deviations if deviation.clause == clause), None)

    def _end(self, ending: Ending, exit_code: int | None = None) -> int:
        """Print a failure, and return the given exit code, or else that of the failure."""
        self._print(ending.lines)
        code = ending.exit_code if exit_code is None else exit_code
        return code if isinstance(code, int) else int(self.slots["status"]) % 256 or 1

    def _print(self, lines: Iterable[Line], *, plain: bool = False) -> None:
        """Print lines; without records if the arguments ask for plain text, unless the lines are `plain`."""
        for stream, data in rendered(self.contract, lines, self.facts, self.slots):
            if stream == "stderr" or plain or not self.asked.plain:
                self.world.write(stream, data)


def _configuration(contract: EngineContract, argv: tuple[str, ...], env: Mapping[str, str]) -> bytes | None:
    """Return the output of the contract's configuration command; None if this is another command.

    That is the content of the variables that make a process ask, or that it acts without asking.
    """
    stance = contract.sticky.interactive
    if stance is None or stance.query is None or argv != stance.query.argv:
        return None
    asked = [env[name] for name in stance.env if env.get(name, "").startswith("{")]
    in_force = json.loads(asked[0]) if asked else {"*": "allow"}
    return json.dumps({stance.query.key: in_force}, indent=2).encode() + b"\n"
