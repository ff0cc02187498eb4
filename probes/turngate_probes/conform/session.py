"""Runs scenarios with engines, several at a time, and makes the report.

COMMAND runs once for each conversation of a scenario: here, with a fresh HOME, and the engine's stand-in on PATH. Any
other command can be observed with recording executables in place; then only the rules that hold for every call count.
"""

import os
import re
import secrets
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from turngate import EngineContract, ProcessRequest, Stop
from turngate.process import run
from turngate.process import run as run_process
from turngate.process.sessions import Leftover
from turngate.sanitize import bounded
from turngate_probes.conform import executable
from turngate_probes.conform.calls import EngineCall, calls, last_noted
from turngate_probes.conform.catalogue import (
    MOST_TURNS,
    PROMPT,
    Scenario,
    for_driver,
    in_process,
    needs_records,
    obstacle,
)
from turngate_probes.conform.conform_report import (
    BreachRow,
    ConformReport,
    Mode,
    ScenarioResult,
    ScenarioRow,
    call_row,
    excuses,
    exit_code,
    severity_of,
    stale,
    verdict,
)
from turngate_probes.conform.judge import Breach, Evidence, Ran, breaches, in_calls, last_words
from turngate_probes.conform.plan import ConformPlan, Conversation
from turngate_probes.conform.real import obstacle as real_obstacle
from turngate_probes.conform.real import staged
from turngate_probes.harness.interrupt import CaseStoppedError, Interrupt
from turngate_probes.report.baseline import ExpectedBreach
from turngate_probes.simulate.arguments import in_chosen_output, in_plain_text

PATIENCE = 5  # times the deadline or the grace, where the machine was too slow for it
LONG_PROMPT = 200_000
MAX_VARIABLE = 100_000  # Linux accepts 128 KB
MAX_OUTPUT = 16 * 2**20
LONGEST = 200
# variables that hold a secret, or that lead to the user's own settings and sessions
_WITHHELD = re.compile(r"(?i)(KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL|AUTH)|^(XDG_.*|TURNGATE_.*|.*_HOME|.*_CONFIG_DIR)$")


def play(
    scenario: Scenario,
    contract: EngineContract,
    command: tuple[str, ...],
    folder: Path,
    stop: Stop,
    environ: Mapping[str, str] = os.environ,
    real: Path | None = None,
    *,
    git: bool = False,
) -> Evidence:
    """Run a scenario in an empty folder, and return what happened; TurngateError if COMMAND can't be started.

    `real` is the CLI to run instead of the simulated engine; `git`: the workspace is an empty repository.
    """
    folder = folder.resolve()
    workspace, home = folder / scenario.workspace, folder / "home"
    workspace.mkdir(parents=True)
    home.mkdir()
    if git:
        _make_repository(workspace / ".git")
    talks = tuple(_conversation(scenario) for _ in range(scenario.conversations))
    plan = ConformPlan(str(folder), contract.engine, contract.version or "", talks, scenario.plays, scenario.turns)
    with staged(plan, contract, real) if real else nullcontext(plan) as complete:
        return _played(scenario, complete, command, workspace, stop, environ)


def _played(
    scenario: Scenario,
    plan: ConformPlan,
    command: tuple[str, ...],
    workspace: Path,
    stop: Stop,
    environ: Mapping[str, str],
) -> Evidence:
    """Run COMMAND for each conversation of a plan."""
    folder, path, talks = Path(plan.folder), executable.install(plan), plan.conversations
    env = {name: value for name, value in environ.items() if not _WITHHELD.search(name)} | {
        "HOME": str(folder / "home"),
        "PATH": f"{path.parent}{os.pathsep}{environ.get('PATH', os.defpath)}",
        "TURNGATE_ENGINE": plan.engine,
        variable_of(plan.engine): str(path),
        "TURNGATE_WORKSPACE": str(workspace),
        "TURNGATE_DEADLINE_SEC": f"{scenario.deadline:g}",
    }
    if scenario.cancel_after:
        env["TURNGATE_CANCEL_AFTER_SEC"] = f"{scenario.cancel_after:g}"
    if any(play.release == "gone" for play in scenario.plays):
        env["PATH"] = _without(path.name, env["PATH"], folder)

    def converse(talk: Conversation) -> Ran:
        variables = _variables(talk, folder)
        limit = scenario.deadline * scenario.turns + scenario.grace
        request = ProcessRequest(command, Path.cwd(), env | variables, timeout=limit, max_output=MAX_OUTPUT)
        outcome = run_process(request, stop=stop)
        ended = time.time()
        return Ran(
            talk,
            None if outcome.ended != "exit" else outcome.exit_code,
            outcome.stdout.decode("utf-8", "replace"),
            outcome.stderr.decode("utf-8", "replace"),
            outcome.seconds,
            tuple(_named(left, path, calls(folder)) for left in outcome.leftovers),
            ended - (last_noted(folder) or ended),
            time.monotonic(),
        )

    with ThreadPoolExecutor(len(talks)) as pool:
        ran = tuple(pool.map(converse, talks))
    return Evidence(scenario, str(workspace), ran, calls(folder))


def _without(name: str, path: str, folder: Path) -> str:
    """Return PATH without an executable: links to all others stand for a directory that has it."""
    directories = []
    for number, directory in enumerate(path.split(os.pathsep)):
        directories.append(directory)
        if not (Path(directory) / name).is_file() or Path(directory).parent == folder:
            continue
        directories[-1] = str(folder / "path" / str(number))
        Path(directories[-1]).mkdir(parents=True)
        for other in Path(directory).iterdir():
            if other.name != name:
                Path(directories[-1], other.name).symlink_to(other.absolute())
    return os.pathsep.join(directories)


def _make_repository(folder: Path) -> None:
    """Make an empty repository, as `git init` does, so that git isn't needed."""
    for name in ("objects", "refs"):
        (folder / name).mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n", "utf-8")
    (folder / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = false\n", "utf-8")


def _named(left: Leftover, path: Path, made: Iterable[EngineCall]) -> str:
    """Name a process that was left running by its call, if it belongs to one, or else by its command line."""
    # the simulated engine runs in an interpreter, whose command line has the plan's folder
    is_engine = str(path.parents[1]) in " ".join(left.argv) or path.name in map(os.path.basename, left.argv[:2])
    for call in reversed(tuple(made)):
        argv = call.started.argv
        if left.pid == call.started.pid or (is_engine and left.argv[-len(argv) or len(left.argv) :] == argv):
            return f"call {call.number} ({bounded(shlex.join((path.name, *argv)), LONGEST)})"
    return bounded(shlex.join(left.argv), LONGEST) or f"process {left.pid}"


def variable_of(engine: str) -> str:
    """Return the name of the variable with the path of an engine's executable."""
    return f"TURNGATE_ENGINE_{engine.upper()}"


def _conversation(scenario: Scenario) -> Conversation:
    name = secrets.token_hex(4)
    slots = {"name": name, "padding": "x" * LONG_PROMPT}
    replies = (scenario.reply, "Yes, I am sure. ({name})")[: scenario.turns - 1]
    prompts = [_filled(text, slots) for text in (scenario.prompt, *replies)]
    return Conversation(name, tuple(prompts), f"amber ä 漢 🎨 {secrets.token_hex(4)}")


def _filled(text: str, slots: Mapping[str, str]) -> str:
    return re.sub(r"\{(name|padding)\}", lambda match: slots[match[1]], text)


def _variables(talk: Conversation, folder: Path) -> dict[str, str]:
    """Return what the user says, as variables and as files, which also hold what is too long for a variable."""
    variables = {}
    for name, text in zip(("TURNGATE_PROMPT", "TURNGATE_REPLY", "TURNGATE_REPLY_2"), talk.prompts, strict=False):
        file = folder / f"{talk.name}-{name.lower()}.txt"
        file.write_text(text, "utf-8")
        variables[f"{name}_FILE"] = str(file)
        if len(text.encode()) < MAX_VARIABLE:
            variables[name] = text
    return variables


NO_CALL = "COMMAND never started the engine's executable; if your SDK brings its own, point it to ${variable}"
ONE_PROCESS = "COMMAND started one process for several turns; the engine plays this in processes for one turn only"
NO_THIRD_TURN = "COMMAND did not send TURNGATE_REPLY_2"
NO_CANCEL = "COMMAND did not cancel the turn after TURNGATE_CANCEL_AFTER_SEC"
PLAIN_TEXT = "COMMAND asks for plain text, which the contract of the engine doesn't describe"
FEWER_TURNS = "it needs more turns than --turns {turns}"
NO_FILE = "a prompt of 200 KB is only in TURNGATE_PROMPT_FILE; read it there"
TOO_LONG = "the engine was never started with a long prompt, but it was with a short one"
LONG_ARGUMENT = "; an argument holds at most 128 KB on Linux, so pass the prompt on standard input"


class ConformSession(Struct, frozen=True):
    """What to run, and how: `reported` gets each result when it is known.

    turns: How many turns the driver can have. autonomous: No user is in the loop, so the engine may act without asking.
    git: Each workspace is a git repository.
    """

    command: tuple[str, ...]
    contracts: tuple[EngineContract, ...]
    scenarios: tuple[Scenario, ...]
    folder: Path
    jobs: int
    expected: tuple[ExpectedBreach, ...] = ()
    strict: bool = False
    real: Mapping[str, Path] = {}
    turns: int = MOST_TURNS
    autonomous: bool = False
    git: bool = False

    @property
    def mode(self) -> Mode:
        """Whether the engines are real; `real` has their executables."""
        return "real" if self.real else "simulated"

    def run(self, interrupt: Interrupt, reported: Callable[[ScenarioRow], None]) -> ConformReport:
        """Run everything; an interrupt ends what runs, and the rest is left out."""
        started, began = datetime.now(UTC), time.monotonic()
        asked = [(contract, scenario) for contract in self.contracts for scenario in self.scenarios]
        if self.jobs > 1:  # the longest first, so that none is left alone at the end
            asked.sort(key=lambda pair: -pair[1].seconds)
        used: list[ExpectedBreach] = []

        def one(pair: tuple[EngineContract, Scenario]) -> ScenarioRow | None:
            try:
                row = self._row(*pair, interrupt, used)
            except CaseStoppedError:
                return None
            reported(row)
            return row

        with ThreadPoolExecutor(self.jobs) as pool:
            done = {(row.engine, row.version, row.scenario): row for row in pool.map(one, asked) if row}
        rows = [
            done[key]
            for contract in self.contracts
            for scenario in self.scenarios
            if (key := (contract.engine, contract.version or "", scenario.id)) in done
        ]
        unused = stale(self.expected, used)
        return report(self.command, self.mode, rows, started, began, unused, interrupt, strict=self.strict)

    def _row(
        self, contract: EngineContract, scenario: Scenario, interrupt: Interrupt, used: list[ExpectedBreach]
    ) -> ScenarioRow:
        version = contract.version or ""
        real = self.real.get(contract.engine)
        fitting = for_driver(scenario, self.turns)
        # the output that COMMAND asks for, and whether it starts a process for several turns, is known when it has run
        modes = (contract, *(contract.in_output(mode.name) for mode in contract.outputs))
        obstacles = [obstacle(scenario, mode) for mode in modes]
        free = contract.sticky.transport != "none" and in_process(scenario, contract)
        why = (obstacles[0] if all(obstacles) and not free else None) or (real and real_obstacle(scenario))
        if fitting is None or why:
            why = why or FEWER_TURNS.format(turns=self.turns)
            return ScenarioRow(contract.engine, version, scenario.id, ScenarioResult.SKIPPED, why, 0.0, (), (), ())
        scenario = fitting
        folder = self.folder / f"{contract.engine}-{version}" / scenario.id
        began = time.monotonic()
        with interrupt.scope() as stop:
            evidence = self._play(scenario, contract, folder / "1", stop)
            too_soon = _too_soon(evidence) or _may_have_canceled(evidence)
            if too_soon or _ended_early(evidence):
                deadline = scenario.deadline * (PATIENCE if too_soon else 1)
                patient = replace(scenario, deadline=deadline, grace=scenario.grace * PATIENCE)
                evidence = self._play(patient, contract, folder / "2", stop)
            missing = _unanswered(evidence, contract)
            listed = [] if missing else breaches(evidence)
            if _is_long(evidence) and not _turns(evidence) and not _has_not_read(evidence):
                short = replace(scenario, prompt=PROMPT)
                if _turns(self._play(short, contract, folder / "short", stop)):
                    missing, listed = None, [Breach("orchestrator.text-whole", _too_long(evidence))]
        if interrupt.is_set():
            raise CaseStoppedError("interrupted")
        rows = [self._breach(contract, scenario, breach, used) for breach in listed]
        result, detail = missing or (_result(rows), "")
        return ScenarioRow(
            contract.engine,
            version,
            scenario.id,
            result,
            detail,
            time.monotonic() - began,
            tuple(ran.exit_code for ran in evidence.ran),
            tuple(rows),
            tuple(map(call_row, evidence.calls)),
        )

    def _play(self, scenario: Scenario, contract: EngineContract, folder: Path, stop: Stop) -> Evidence:
        real = self.real.get(contract.engine)
        evidence = play(scenario, contract, self.command, folder, stop, real=real, git=self.git)
        return replace(evidence, interactive=not self.autonomous)

    def _breach(
        self, contract: EngineContract, scenario: Scenario, breach: Breach, used: list[ExpectedBreach]
    ) -> BreachRow:
        engine, version = contract.engine, contract.version or ""
        fitting = [entry for entry in self.expected if excuses(entry, engine, version, scenario.id, breach.rule)]
        used.extend(fitting)
        reason = fitting[0].reason if fitting else None
        return BreachRow(breach.rule, severity_of(breach.rule), breach.detail, breach.call, reason)


def report(
    command: tuple[str, ...],
    mode: Mode,
    rows: Sequence[ScenarioRow],
    started: datetime,
    began: float,
    unused: tuple[str, ...],
    interrupt: Interrupt,
    *,
    strict: bool,
) -> ConformReport:
    """Return the report on these results."""
    found = verdict(rows)
    code = exit_code(found, strict=strict, stale=unused, interrupted=interrupt.is_set())
    return ConformReport(
        turngate=metadata.version("turngate"),
        mode=mode,
        command=command,
        started_at=started.isoformat(timespec="seconds"),
        seconds=time.monotonic() - began,
        interrupted=interrupt.is_set(),
        verdict=found,
        exit_code=code,
        stale=unused,
        results=tuple(rows),
    )


def _unanswered(evidence: Evidence, contract: EngineContract) -> tuple[ScenarioResult, str] | None:
    """Return why a run says nothing about its scenario; None: it says something."""
    turns = _turns(evidence)
    if not turns:
        reported = NO_FILE if _has_not_read(evidence) else NO_CALL.format(variable=variable_of(contract.engine))
        return ScenarioResult.UNANSWERED, reported + _failed(evidence)
    in_turns = [call for call in turns if call.started.kind == "turn"]
    if needs_records(evidence.scenario) and any(in_plain_text(contract, call.started.argv) for call in in_turns):
        return ScenarioResult.SKIPPED, PLAIN_TEXT
    chosen = (in_chosen_output(contract, call.started.argv) for call in in_turns)
    if why := next(filter(None, (obstacle(evidence.scenario, one) for one in chosen)), None):
        return ScenarioResult.SKIPPED, f"in the output that COMMAND asks for, {why}"
    good = all(call.ended and not call.ended.exit_code for call in turns)
    refused = evidence.scenario.expect == "either" and any(ran.exit_code for ran in evidence.ran)
    third = any(ran.conversation.prompts[-1] in (call.text or "") for ran in evidence.ran for call in turns)
    fewer = len(turns) == MOST_TURNS - 1 and not third  # two processes can have more turns than two
    if "third_turn" in evidence.scenario.needs and good and not refused and fewer:
        return ScenarioResult.SKIPPED, NO_THIRD_TURN
    if evidence.scenario.cancel_after and all(ran.seconds >= evidence.scenario.deadline for ran in evidence.ran):
        return ScenarioResult.SKIPPED, NO_CANCEL
    if any(call.started.kind == "process" for call in turns) and not in_process(evidence.scenario, contract):
        return ScenarioResult.SKIPPED, ONE_PROCESS
    return None


def _failed(evidence: Evidence) -> str:
    """Return how COMMAND failed, in brackets; empty: it did not."""
    return next((f" ({last_words(ran)})" for ran in evidence.ran if ran.exit_code), "")


def _too_long(evidence: Evidence) -> str:
    """Return what is wrong if only a long prompt starts no engine: it was an argument, or COMMAND refuses it."""
    printed = (text for ran in evidence.ran for text in (ran.stdout, ran.stderr))
    argument = any(re.search(r"E2BIG|Argument list too long", text) for text in printed)
    return f"{TOO_LONG}{LONG_ARGUMENT if argument else ''}{_failed(evidence)}"


def _turns(evidence: Evidence) -> list[EngineCall]:
    """Return the calls that are about the conversation."""
    return [call for call in evidence.calls if call.started.kind != "query"]


def _is_long(evidence: Evidence) -> bool:
    """Whether the prompt fits neither an argument nor a variable."""
    return len(evidence.ran[0].conversation.prompts[0]) > MAX_VARIABLE


def _has_not_read(evidence: Evidence) -> bool:
    """Whether COMMAND looks for a long prompt in the variable, which is not there."""
    return _is_long(evidence) and any(re.search(r"TURNGATE_PROMPT(?!_FILE)", last_words(ran)) for ran in evidence.ran)


def _too_soon(evidence: Evidence) -> bool:
    """Whether a slow machine used up the deadline before the turn that misbehaves."""
    wanted = min((play.turn or 1 for play in evidence.scenario.plays), default=1)
    turns = len(_turns(evidence))
    # a process for several turns is one call
    reached = any(
        ran.conversation.prompts[wanted - 1] in (call.text or "") for ran in evidence.ran for call in evidence.calls
    )
    return turns < wanted and not reached and any(ran.seconds >= evidence.scenario.deadline for ran in evidence.ran)


def _may_have_canceled(evidence: Evidence) -> bool:
    """Whether COMMAND took as long as a deadline, but its last turn did not: a slow machine hides a cancel."""
    scenario, turns = evidence.scenario, _turns(evidence)
    if not scenario.cancel_after or not turns:
        return False
    last = max(call.started.at for call in turns)
    return all(ran.seconds >= scenario.deadline > ran.ended - last for ran in evidence.ran)


def _ended_early(evidence: Evidence) -> bool:
    """Whether COMMAND was ended before it had its deadline and all of its grace after the engine's last sign."""
    enough = evidence.scenario.deadline + evidence.scenario.grace
    return any(ran.exit_code is None and ran.idle < enough for ran in evidence.ran)


def _result(rows: Iterable[BreachRow]) -> ScenarioResult:
    reasons = [row.excused for row in rows]
    if None in reasons:
        return ScenarioResult.FAIL
    return ScenarioResult.EXCUSED if reasons else ScenarioResult.PASS


SIGNALLED = 128  # plus the number of the signal, as a shell reports it
DAYS = 7 * 86_400.0
_ANY = Scenario(id="observed", sentence="", why="", rule="", expect="either")


def observed(
    command: tuple[str, ...],
    contracts: tuple[EngineContract, ...],
    folder: Path,
    interrupt: Interrupt,
    *,
    interactive: bool,
    strict: bool,
) -> ConformReport:
    """Run COMMAND in this directory and environment, its output passed on; MachineError if it can't be started.

    If COMMAND fails, the report has its exit code.
    """
    started, began = datetime.now(UTC), time.monotonic()
    plans = [ConformPlan(str(folder.resolve() / one.engine), one.engine, one.version or "", ()) for one in contracts]
    paths = {plan.engine: executable.install(plan) for plan in plans}
    bins = os.pathsep.join(str(path.parent) for path in paths.values())
    env = dict(os.environ) | {"PATH": f"{bins}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
    env |= {variable_of(engine): str(path) for engine, path in paths.items()}
    with interrupt.scope() as stop:
        request = ProcessRequest(command, Path.cwd(), env, timeout=DAYS, max_output=0)
        outcome = run(request, stop=stop, on_output=_passed_on)
    rows, exit_code = [], outcome.exit_code or 0
    for contract, plan in zip(contracts, plans, strict=True):
        evidence = Evidence(_ANY, "", (), calls(Path(plan.folder)), interactive=interactive)
        broken = in_calls(evidence)
        left = {left.pid for left in outcome.leftovers}
        for call in evidence.calls:
            if call.started.pid in left:
                detail = f"still running: {shlex.join((contract.executable, *call.started.argv))}"
                broken.append(Breach("orchestrator.leaves-nothing-running", bounded(detail, LONGEST), call.number))
        rows.append(_row(contract, evidence.calls, broken, outcome.exit_code, time.monotonic() - began))
    judged = report(command, "observed", rows, started, began, (), interrupt, strict=strict)
    if exit_code and not interrupt.is_set():
        return replace(judged, exit_code=exit_code if exit_code > 0 else SIGNALLED - exit_code)
    return judged


def _row(
    contract: EngineContract, made: tuple[EngineCall, ...], broken: list[Breach], code: int | None, seconds: float
) -> ScenarioRow:
    missing = "" if made else NO_CALL.format(variable=variable_of(contract.engine))
    result = ScenarioResult.UNANSWERED if missing else ScenarioResult.FAIL if broken else ScenarioResult.PASS
    return ScenarioRow(
        contract.engine,
        contract.version or "",
        _ANY.id,
        result,
        missing,
        seconds,
        (code,),
        tuple(BreachRow(row.rule, severity_of(row.rule), row.detail, row.call, None) for row in broken),
        tuple(map(call_row, made)),
    )


def _passed_on(stream: str, chunk: bytes) -> None:
    out = sys.stdout.buffer if stream == "stdout" else sys.stderr.buffer
    out.write(chunk)
    out.flush()
