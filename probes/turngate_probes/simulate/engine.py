"""One call of a simulated engine: from its arguments to what it prints and its exit code."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from turngate import EngineContract, UsageError
from turngate.argv.file_slot import artifacts_in
from turngate.contract.launch import Stream
from turngate.contract.simulation import Ending, Line, Simulation
from turngate_probes.simulate import arguments, printing, settings_effects
from turngate_probes.simulate.arguments import Asked, QueryCommand, UsageProblem
from turngate_probes.simulate.backend import (
    OFFERED,
    Acted,
    Answer,
    Called,
    EngineContext,
    Failed,
    Message,
    Model,
    Stopped,
)
from turngate_probes.simulate.faults import NONE, Faults
from turngate_probes.simulate.misbehaviour import BLANK, OWN_PROMPT
from turngate_probes.simulate.printing import fill, rendered
from turngate_probes.simulate.sticky import tool_calls
from turngate_probes.simulate.sticky.process_start import ProcessStart
from turngate_probes.simulate.sticky.process_start import read as read_start
from turngate_probes.simulate.store import SimulatedSession, held, store

_STDIN = Path("/dev/stdin")
DEFAULT_MODEL = "default-model"
TOOL_RESULT = "the simulation runs no tools"
KILLED = "signal 31"
NOT_SIMULATED = 2
MAX_TITLE = 100  # characters
CHOSEN = "The user chose the first option."
_PLAIN = (Line(stdout="{text}\n"),)  # without the options of the contract that choose the form of the output

# the outcome for a session that can't be resumed, and the clause whose deviations replace a refusal
_NO_SESSION = {"dead": "resume.dead-handle", "malformed": "resume.malformed-handle"}


class HeadlessCall:
    """A call that runs a turn; `facts` are the conditions that lines may depend on, `slots` the values of slots.

    `acts` says that a setting lets the engine act without asking, whatever the mode. Else it may write below
    `artifacts` (None: nothing).
    """

    def __init__(
        self,
        contract: EngineContract,
        simulation: Simulation,
        world: EngineContext,
        asked: Asked,
        *,
        acts: bool = False,
        artifacts: str | None = None,
    ) -> None:
        self.contract, self.simulation, self.asked = contract, simulation, asked
        self.acts = acts or asked.auto
        self.artifacts = artifacts
        self.syntax = simulation.arguments
        self.world = replace(world, cwd=self._directory(world.cwd))
        self.prompt = self._read_prompt()
        self.responded, self.is_too_long, self.listed = False, False, False
        self.store = store(contract, world.env, self.world.cwd)
        self._is_kept = True
        self.facts = {"start", "auto" if asked.auto else "interactive", *(name for name, _ in asked.line.options)}
        if asked.model == contract.hermetic.model:
            self.facts.add("unknown-model")
        self.slots: dict[str, Any] = {
            "version": contract.version or "0.0.0",
            "cwd": self.world.cwd,
            "handle": "",
            "status": 1,
            "model": asked.model,
            "prompt": self.prompt,
            "calls": "0",
            "attempt": 1,
        }

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
        """Read the prompt from the arguments, a file or standard input; UsageProblem if it is refused."""
        asked, file = self.asked, self.asked.line.last(self.syntax.prompt_file)
        read = self._read_file(file) if file and Path(file) != _STDIN else self._read_input()
        prompt = read if asked.prompt is None else asked.prompt
        if self._symptom("prompt.whole") == "blanks":
            prompt = prompt.strip()
        if why := arguments.refusal(asked.channel, prompt):
            if not prompt.strip():
                raise UsageProblem("no-prompt", why)
            if asked.prompt is None or self.syntax.spaced == "{argument}":
                raise UsageProblem("prompt", why)
        if asked.prompt is not None and read.strip() and self.syntax.both:
            return self.syntax.both.replace("{argument}", prompt).replace("{stdin}", read)
        return prompt

    def _read_input(self) -> str:
        """Read standard input, which some releases do although they have a prompt."""
        wait = self.syntax.input_wait
        waits = wait is not None and self.world.has_input(wait) if self.asked.prompt is not None else True
        reads = waits or self._symptom("stdin.open") == "hang"
        return self.world.stdin.read().decode("utf-8", "replace") if reads else ""

    def _read_file(self, file: str) -> str:
        """Read a file with the prompt; UsageProblem if that is impossible."""
        try:
            return Path(self.world.cwd, file).read_text("utf-8", "replace")
        except OSError as error:
            raise UsageProblem("no-file", f"can't read {file}: {error.strerror}", value=file) from error

    def _unmet(self) -> Ending | None:
        """Return how a turn is refused for the lack of an option."""
        inside = Path(self.world.cwd)
        for required in self.syntax.required:
            env, name = required.unless_env, required.unless_inside
            # a release that is started without the option does not know it
            exempt = bool(required.beside) or required.option not in self.contract.launch.start
            exempt = exempt or (bool(env) and env.items() <= self.world.env.items())
            exempt = exempt or (bool(name) and any((folder / name).exists() for folder in (inside, *inside.parents)))
            if not exempt and not self.asked.line.has(required.option, None):
                return required.refusal
        return None

    def run(self) -> int:
        """Run the turn; a list of records ends with it."""
        code = self._run()
        if self.listed:
            self.world.write("stdout", b"]\n")
        return code

    def _run(self) -> int:
        """Find or make the session, and run the turn unless the session can't be resumed."""
        if (ending := self._unmet()) is not None:
            return self._end(ending)
        handle = (
            self.store.in_order(self.world.cwd, self.asked.place) if self.asked.by_order else None
        ) or self.asked.handle
        chosen = self.asked.line.last(self.syntax.new_session)
        if chosen and "in-use" in self.syntax.refusals and handle is None and self.store.find(chosen):
            raise UsageProblem("in-use", f"the session {chosen} exists", value=chosen)
        if handle is None and chosen and self.store.find(chosen) is None:
            return self._turn(SimulatedSession(chosen, self.world.cwd, self.world.clock()))
        handle = handle or chosen
        if handle is None:
            return self._turn(self._fresh())
        with held(self.world.env, handle) as is_free:
            declared = self._symptom("session.at-once") == "message-lost"
            if is_free or declared or self.world.faults_in(0, self.prompt).accepts_both:
                self._is_kept = is_free
                return self._resume(handle)
            self.slots |= {"handle": handle, "error": f"the session {handle} is in use"}
            self.facts |= {"dead"}
            return self._end(self.simulation.nonexistent_id or self.simulation.failed)

    def _resume(self, handle: str) -> int:
        """Run the turn in a session, unless that can't be resumed."""
        self.facts = self.facts - {"start"} | {"resume"}
        existing = self._find(handle)
        trouble, symptom = self._trouble(handle, existing)
        self.slots |= {
            "handle": handle,
            "error": f"no session {handle}",
            "session_cwd": existing.cwd if existing else "",
        }
        if symptom is None:
            return self._turn(self._forked(existing) if existing else self._fresh())
        self.facts.add(trouble)
        if symptom == "fresh-session":
            return self._turn(self._fresh())
        refusal = (self.simulation.elsewhere if existing else None) or self.simulation.nonexistent_id
        if symptom == "context-lost" or refusal is None:
            return self._turn(SimulatedSession(handle, self.world.cwd, self.world.clock()))
        if symptom == "late" or (symptom == "hang" and existing):
            session = existing or self._fresh()
            self._ask([*session.messages, {"role": "user", "content": self.prompt}])
        if symptom == "hang":
            self.world.hang()
        return self._end(refusal, 0 if symptom == "quiet" else None)

    def _forked(self, existing: SimulatedSession) -> SimulatedSession:
        """Return the session that a resume goes on in: a new one with the same messages if the options ask for it."""
        if self.asked.line.last(self.syntax.fork) is None:
            return existing
        handle = self.asked.line.last(self.syntax.new_session) or self._fresh().handle
        return SimulatedSession(handle, self.world.cwd, self.world.clock(), messages=[*existing.messages])

    def _find(self, handle: str) -> SimulatedSession | None:
        """Return a session, which some releases lose if it is resumed in a later minute."""
        existing = self.store.find(handle, self.world.cwd)
        if existing and self._is_later(existing) and self._symptom("resume.later-minute") == "lost-at-once":
            self.store.drop(existing)
            return None
        return existing

    def _trouble(self, handle: str, existing: SimulatedSession | None) -> tuple[str, str | None]:
        """Return what is wrong with resuming a session, and its symptom (None: it can be resumed)."""
        if existing is None:
            trouble = "dead" if re.fullmatch(self.contract.handle.shape, handle) else "malformed"
            return trouble, self._symptom(_NO_SESSION[trouble]) or "refused"
        elsewhere = existing.cwd != self.world.cwd
        return "elsewhere", self._symptom("resume.other-cwd") if elsewhere else None

    def _turn(self, session: SimulatedSession) -> int:
        """Run a turn in a session and save both."""
        self._age(session)
        if "resume" in self.facts and self._symptom("resume.same-handle") == "new-handle":
            session.handle = self._fresh().handle
        self.world.in_session(session.handle, session.cwd)
        self.slots |= {name: fill(form, {}) for name, form in self.simulation.ids.items()}
        self.slots |= {"handle": session.handle, "messages": len(session.messages)}
        named = settings_effects.files_named(self.contract, self.prompt, self.world.env, self.world.cwd)
        session.messages.append({"role": "user", "content": self.prompt + named})
        self.slots["turn"] = sum(message["role"] == "user" for message in session.messages)
        if session.left == "call" and self._symptom("resume.after-tool-call") == "repeated-result":
            result = next(message for message in reversed(session.messages) if message["role"] == "tool")
            session.messages.insert(session.messages.index(result), result)
        faults = self.world.faults_in(self.slots["turn"], self.prompt)
        if faults.joins_lines:
            session.messages[-1] = {"role": "user", "content": " ".join(self.prompt.splitlines()) + named}
        if faults.forgets or (session.left and session.left == faults.forgets_after):
            del session.messages[:-1]
        if faults.keeps_turns:
            said = [i for i, message in enumerate(session.messages) if message["role"] == "user"]
            del session.messages[: said[-faults.keeps_turns :][0]]
        session.left = "kill"  # until it ends otherwise
        self._keep(session)
        try:
            return self._answer(session)
        except Stopped as stopped:
            self._print(self.simulation.stopping.get(stopped.name, ()))
            raise

    def _answer(self, session: SimulatedSession) -> int:
        """Ask the model, and print and save its answer."""
        faults = self.world.faults_in(self.slots["turn"], self.prompt)
        self._print(self.simulation.started)
        for attempt in range(1, faults.retries + 1):
            self._retrying(Failed("500", "stream disconnected before completion", 500), attempt)
        if (failed := self._ask_and_keep(session)) is not None:
            return self._failed(failed)
        # of several turns, a single document tells only the last
        if not (faults.goes_on_by_itself and self.contract.streams.stdout.framing == "json_document"):
            self._print_answer(faults)
        if faults.goes_on_by_itself:
            session.messages.append({"role": "user", "content": OWN_PROMPT})
            self._print(self.simulation.started)
            if (failed := self._ask_and_keep(session)) is not None:
                return self._failed(failed)
            self._print_answer(faults)
        cut_short = faults.crash or faults.omits_end or faults.hang in ("before", "during", "heartbeat")
        if (file := self.asked.line.last(self.syntax.answer_file)) and not cut_short:
            text = "" if faults.omits_answer else str(self.slots["text"])
            Path(self.world.cwd, file).write_text(text, "utf-8")
        return 0

    def _keep(self, session: SimulatedSession) -> None:
        """Save a session, unless an option says that it is not kept, or another process has it."""
        if self._is_kept and self.asked.line.last(self.syntax.unkept) is None:
            self.store.keep(session)

    def _ask_and_keep(self, session: SimulatedSession) -> Failed | None:
        """Ask the model, and save what it says; return how that failed."""
        answer = self._ask(session.messages)
        if isinstance(answer, Failed):
            session.left = "failure"
            self._keep(session)
            return answer
        self._respond()
        self.slots["text"] = text = answer if isinstance(answer, str) else ""
        session.messages.append({"role": "assistant", "content": text})
        if self.is_too_long:
            self._compact(session)
        session.left = "call" if self.slots["calls"] != "0" else ""
        self._keep(session)
        return None

    def _compact(self, session: SimulatedSession) -> None:
        """Replace a conversation by the model's summary, which an engine may ask for and not use."""
        compaction = self.contract.hermetic.compaction
        request = compaction.request if compaction else ""
        summary = self._ask([*session.messages, {"role": "user", "content": request}])
        if isinstance(summary, str) and self._symptom("resume.after-compaction") != "not-compacted":
            lost = self.world.faults_in(self.slots["turn"], self.prompt).loses_summary
            session.messages = [] if lost else [{"role": "user", "content": summary}]

    def _print_answer(self, faults: Faults) -> None:
        if faults.blank_answer:
            self.slots["text"] = BLANK
        plain = () if faults.omits_answer else _PLAIN
        self._print(plain if self.asked.plain else self.simulation.answered, plain=True)

    def _age(self, session: SimulatedSession) -> None:
        """Save that a session is resumed in a later minute; some releases then lose it to the next session."""
        session.reopened = session.reopened or self._is_later(session)
        if self._symptom("resume.later-minute") == "lost-after-another":
            for other in self.store.others(session):
                if other.reopened:
                    self.store.drop(other)

    def _is_later(self, session: SimulatedSession) -> bool:
        return self.world.clock() // 60 > session.began_at // 60

    def _ask(self, messages: list[Message]) -> Answer:
        """Send requests until the model replies with text."""
        asked, faults = self.asked, self.world.faults_in(self.slots.get("turn", 1), self.prompt)
        text = settings_effects.instructions(self.contract, self.world.env, self.world.cwd, auto=asked.auto)
        name, more = (DEFAULT_MODEL, {}) if faults.ignores_model else (asked.model, self._effort())
        model = Model(
            self.contract,
            self.world.backend,
            name,
            asked.auto,
            tools=(OFFERED, *self._questions()),
            retrying=self._retrying,
            instructions="" if faults.ignores_instructions else text,
            more=more,
        )
        return model.ask(messages, self._called)

    def _effort(self) -> Mapping[str, Any]:
        """Return what the options for an effort add to a request."""
        effort = self.contract.hermetic.effort
        passed = self.asked.line.options
        if effort is None or not all(option in passed for option in arguments.template_options(effort.options)):
            return {}
        value: Any = effort.value
        for name in reversed(effort.field.split(".")):
            value = {name: value}
        return dict(value)

    def _questions(self) -> tuple[str, ...]:
        """Return the tools for questions that are offered, and answered: none without the fault."""
        answers = self.world.faults_in(self.slots.get("turn", 1), self.prompt).answers_questions
        return tuple(question.tool for question in self.contract.question_calls) if answers else ()

    def _respond(self) -> None:
        """Print what comes with the first response of the model."""
        if not self.responded:
            self._print(self.simulation.first_response)
        self.responded = True

    def _retrying(self, failed: Failed, attempt: int) -> None:
        """Report a failure after which the request is sent again; another failure replaces it."""
        self._know(failed)
        self.slots["attempt"] = attempt
        self._print(self.simulation.retrying)
        self.facts = self.facts - {failed.kind} | {"retried"}

    def _know(self, failed: Failed) -> None:
        """Let lines depend on a failure and name it."""
        self.facts.add(failed.kind)
        self.slots |= {"error": failed.error, "status": failed.status, "text": ""}

    def _called(self, call: Called) -> Acted:
        """Write the file of the contract's tool where it may act, and answer for a command in a sandbox.

        Nothing else is ever done.
        """
        if call.tool in self._questions():
            return Acted(CHOSEN)
        faults, ran = self.world.faults_in(self.slots["turn"], self.prompt), tool_calls.ran(call, self.contract)
        acts = self.acts or faults.acts_unasked
        within = self.world.cwd if acts else self.artifacts
        known = self.contract.call_of(call.tool) if within else None
        failure = tool_calls.act(call, known, self.world.cwd, within) if known else TOOL_RESULT
        compaction = self.contract.hermetic.compaction
        self.is_too_long |= compaction is not None and call.tokens >= compaction.tokens
        number = self.slots["calls"]
        self.slots |= {"tool": call.tool, "call_id": call.call_id, "subject": call.text, "arguments": call.arguments}
        self.slots |= {"call": number, "calls": str(int(number) + 1)}
        if ran is not None:
            failure, done = None, KILLED if faults.kills_commands else ran
        else:
            done = failure or "done"
        self.facts = self.facts - {"done", "refused"} | {"refused" if failure else "done"}
        self._respond()
        self._print(self.simulation.called)
        return Acted(done)

    def _failed(self, failed: Failed) -> int:
        """Report a failing backend, hang, or treat it as a success, as the contract declares."""
        self._know(failed)
        reported = [d for d in self.contract.deviations if d.clause == "backend.failure-told"]
        declared = {d.symptom for d in reported if not d.flaky}
        if not self.simulation.retries:
            self._print(self.simulation.retrying)
        if f"hang-{failed.kind}" in declared or failed.kind in self.simulation.hangs:
            self.world.hang()
        self._respond()
        if f"success-{failed.kind}" in declared:
            self._print(self.simulation.unanswered)
            return 0
        if self._symptom("process.clean-exit") == "lingers":
            self._print(self.simulation.failed.lines)
            self.world.hang()
        return self._end(self.simulation.failed, 0 if f"exit-0-{failed.kind}" in declared else None)

    def _fresh(self) -> SimulatedSession:
        form = self.simulation.handle
        slots = {"number": len(self.store.sessions()) + 1} if "{number}" in form else {}
        return SimulatedSession(str(fill(form, slots)), self.world.cwd, self.world.clock())

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
            if stream == "stdout" and self.asked.listed:
                self.world.write(stream, (b"," if self.listed else b"[") + data.rstrip())
                self.listed = True
            elif stream == "stderr" or plain or not self.asked.plain:
                self.world.write(stream, data)


def run(contract: EngineContract, argv: tuple[str, ...], world: EngineContext) -> int:
    """Run the simulated release and return its exit code; UsageError if the contract does not describe it."""
    simulation = printing.simulation(contract)
    if (page := about_itself(contract, argv, world.env, world.faults_in(0, ""))) is not None:
        world.write(*page)
        return 0
    if (query := arguments.query(contract, argv)) is not None:
        return _answer_query(contract, query, world)
    if unplayed := arguments.unplayed(contract, argv):
        world.write("stderr", f"turngate: {unplayed}\n".encode())
        return NOT_SIMULATED
    try:
        if (start := read_start(contract, argv)) is not None:
            return _serve(contract, simulation, start, world)
        asked = arguments.read(contract, argv)
        acts = settings_effects.lets_act(contract, argv, world.env, world.cwd)
        artifacts = artifacts_in(argv, contract)
        world = settings_effects.visit(contract, argv, world)
        return HeadlessCall(contract, simulation, world, asked, acts=acts, artifacts=artifacts).run()
    except UsageProblem as problem:
        ending = problem.ending or simulation.arguments.refusals.get(problem.kind, simulation.usage)
        slots = {"cwd": world.cwd, "handle": "", "error": str(problem), **problem.slots}
        facts = ["similar" if problem.slots.get("similar") else "dissimilar"]
        for stream, data in rendered(contract, ending.lines, facts, slots):
            world.write(stream, data)
        return ending.exit_code if isinstance(ending.exit_code, int) else 1


def _answer_query(contract: EngineContract, query: QueryCommand, world: EngineContext) -> int:
    """Print what a command answers that runs no turn, and return the exit code."""
    answer = query.answer
    if answer is None:
        world.write("stderr", f"turngate: {query.problem}\n".encode())
        return NOT_SIMULATED
    slots = {"version": contract.version or "0.0.0", "cwd": world.cwd, "handle": ""}
    stored = store(contract, world.env, world.cwd).sessions() if answer.session else []
    sessions = sorted((one for one in stored if one.cwd == world.cwd), key=lambda one: one.began_at)
    printed = [*rendered(contract, answer.sessions if sessions else answer.lines, (), slots | {"count": len(sessions)})]
    for number, session in enumerate(sessions, 1):
        said = " ".join(str(next(iter(session.messages), {}).get("content", "")).split())
        title = said if len(said) <= MAX_TITLE else f"{said[: MAX_TITLE - 3]}..."
        printed += rendered(
            contract, answer.session, (), slots | {"number": number, "handle": session.handle, "title": title}
        )
    for stream, data in printed:
        world.write(stream, data)
    return answer.exit_code if isinstance(answer.exit_code, int) else 1


def about_itself(
    contract: EngineContract, argv: Sequence[str], env: Mapping[str, str], faults: Faults = NONE
) -> tuple[Stream, bytes] | None:
    """Return what a call prints that asks for the version, a help page or the configuration; None: it is another."""
    simulation = printing.simulation(contract)
    spelled = [simulation.arguments.spellings.get(token, token) for token in takewhile(lambda t: t != "--", argv)]
    # a user may leave out what the contract adds to every call
    if {*contract.version_query.argv} - {*contract.launch.start} <= {*spelled} <= {*contract.version_query.argv}:
        version = fill(simulation.version, {"version": contract.version or "0.0.0"})
        return contract.version_query.stream, f"{version}\n".encode()
    for page in sorted(contract.help.pages, key=lambda page: -len(page.argv)):
        if {*page.argv} <= {*spelled}:
            modes = (contract, *(contract.in_output(mode.name) for mode in contract.outputs))
            same = (each for mode in modes for each in mode.help.pages if each.argv == page.argv)
            words = "".join(f"  {name}\n" for name in dict.fromkeys(name for each in same for name in each.names))
            return page.stream, f"{contract.title} (simulated)\n\n{words}".encode()
    if arguments.asks_for_help(contract, argv):
        words = "".join(f"  {name}\n" for name in arguments.accepted(contract, simulation.arguments))
        return "stdout", f"{contract.title} (simulated)\n\n{words}".encode()
    if any(_is_listing(each.argv, argv) for each in contract.listings) and arguments.query(contract, argv) is None:
        return "stdout", b""
    return _configuration(contract, argv, {} if faults.ignores_settings else env)


def _is_listing(template: Sequence[str], argv: Sequence[str]) -> bool:
    """Whether a call asks for a list; where the engine writes it differs."""
    return len(template) == len(argv) and all(
        "{" in ours or ours == theirs for ours, theirs in zip(template, argv, strict=True)
    )


def _serve(contract: EngineContract, simulation: Simulation, start: ProcessStart, world: EngineContext) -> int:
    """Run turns in a sticky process until the client ends it; UsageError if the contract names no protocol."""
    from turngate_probes.simulate.sticky.transports import TRANSPORTS  # noqa: PLC0415 - a headless turn is faster without

    transport = TRANSPORTS.get(start.transport)
    if transport is None:
        raise UsageError(f"{contract.engine} has no sticky process", "its contract names no sticky transport")
    try:
        transport(contract, simulation, world, start).serve()
    except SystemExit as ended:
        return int(ended.code or 0)


def _configuration(
    contract: EngineContract, argv: Sequence[str], env: Mapping[str, str]
) -> tuple[Stream, bytes] | None:
    """Return the output of the contract's configuration command; None if this is another command.

    That is the content of the variables that make a process ask, or that it acts without asking.
    """
    approval = contract.sticky.interactive
    if approval is None or approval.query is None or tuple(argv) != approval.query.argv:
        return None
    asked = [env[name] for name in approval.env if env.get(name, "").startswith("{")]
    in_force = json.loads(asked[0]) if asked else {"*": "allow"}
    return "stdout", json.dumps({approval.query.key: in_force}, indent=2).encode() + b"\n"
