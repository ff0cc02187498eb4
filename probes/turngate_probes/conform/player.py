"""The executable that an orchestrator starts: a simulated engine that plays its part and records the call.

A call is described by its arguments, its environment, and its standard input.
"""

import gc
import io
import os
import stat
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Never

from msgspec.structs import replace

from turngate import EngineContract, TurngateError
from turngate.argv.auto_flags import Flags, auto_flags_in
from turngate.argv.file_slot import as_in_contract
from turngate.contract.launch import Stream
from turngate_probes.conform import compiled, scenario_model
from turngate_probes.conform.approval import approving
from turngate_probes.conform.calls import CALLS, CallRecord, Started, note_request
from turngate_probes.conform.message_forms import forms
from turngate_probes.conform.plan import BIN, HOME, ConformPlan
from turngate_probes.conform.recorded_stdin import RecordedStdin
from turngate_probes.simulate import arguments
from turngate_probes.simulate.arguments import UsageProblem
from turngate_probes.simulate.backend import Answer, ModelRequest, backend
from turngate_probes.simulate.engine import about_itself
from turngate_probes.simulate.faults import NONE, Faults, for_turn
from turngate_probes.simulate.printing import provide, simulation
from turngate_probes.simulate.simulated_process import Kind, SimulatedProcess, print_last
from turngate_probes.simulate.sticky.process_start import read, starts_sticky
from turngate_probes.simulate.store import store

_KINDS = ((stat.S_ISFIFO, "pipe"), (stat.S_ISREG, "file"), (stat.S_ISSOCK, "socket"), (stat.S_ISCHR, "device"))
USAGE = 2
STDIN_GRACE = 1.0  # seconds that the caller has after the answer to end standard input
TOGETHER, POLL = 10.0, 0.02  # seconds
UPDATED = "Updated to {version}. The new version is used from the next start on.\n"


def described(contract: EngineContract, argv: tuple[str, ...], env: Mapping[str, str], newest: str | None) -> Started:
    """Return what is known of a call at its start; `newest` is the id of the latest session in the directory."""
    start = Started(os.getpid(), argv, str(Path.cwd()), tuple(sorted(env)), _stdin(), time.monotonic(), kind="query")
    try:
        return _described(start, contract, argv, env, newest)
    except TurngateError as wrong:
        return replace(start, kind="unknown", problem=str(wrong))


def _described(
    start: Started, contract: EngineContract, argv: tuple[str, ...], env: Mapping[str, str], newest: str | None
) -> Started:
    """Add to a call what its arguments say; TurngateError if the simulation doesn't know what they do."""
    if about_itself(contract, argv, env) is not None:
        return start
    if (asked_instead := arguments.query(contract, argv)) is not None:
        problem = asked_instead.problem
        return replace(start, kind="unknown" if problem else "query", problem=problem)
    latest = tuple(token for token in argv if token in contract.launch.newest_session_options)
    if starts_sticky(contract, argv):
        asked_for = None
        with suppress(UsageProblem):  # the engine refuses it
            asked_for = read(contract, named(contract, argv, newest))
        sticky, files = simulation(contract).sticky, approving(contract, argv, env, start.cwd, None)
        others = approving(contract, argv, env, start.cwd, dict.fromkeys(arguments.spread(argv)), kept=True)
        return replace(
            start,
            kind="process",
            auto_approving=(*_auto_approving(argv, contract), *files),
            unless_asked=tuple(one for one in others if one not in files),
            makes_ask=sticky.makes_ask,
            lets_act=sticky.lets_act,
            forms=forms(contract, asked_for.transport) if asked_for else start.forms,
            resumed=asked_for and asked_for.resume,
            chosen=asked_for and asked_for.session,
            newest_session=" ".join(latest) or (asked_for.by_order if asked_for else ""),
            forgotten=asked_for and asked_for.forgotten,
            forks=bool(asked_for and asked_for.forks),
        )
    try:
        asked = arguments.read(contract, named(contract, argv, newest))
    except UsageProblem as problem:
        before = argv[: argv.index("--")] if "--" in argv else argv
        return replace(start, kind="refused", problem=str(problem), auto_approving=_auto_approving(before, contract))
    syntax = simulation(contract).arguments
    chosen, file = asked.line.last(syntax.working_directory), asked.line.last(syntax.prompt_file)
    tokens = tuple(token for token in argv if token != asked.prompt)
    cwd, forgotten = os.path.realpath(Path(start.cwd, chosen or "")), arguments.forgotten(contract, asked.line)
    options = {**dict.fromkeys(forgotten), **dict(asked.line.options)}
    auto_approving = (*_auto_approving(tokens, contract), *approving(contract, argv, env, cwd, options))
    return replace(
        start,
        kind="turn",
        cwd=cwd,
        resumed=newest if asked.by_order else asked.handle,
        prompt=_text_of(Path(cwd, file)) if file else asked.prompt,
        newest_session=" ".join(latest) or asked.by_order,
        chosen=asked.line.last(syntax.new_session),
        forgotten=forgotten,
        forks=asked.line.last(syntax.fork) is not None,
        auto_approving=auto_approving,
    )


def _text_of(file: Path) -> str | None:
    """Return the prompt in a file; None: standard input, or a file that can't be read."""
    try:
        return file.read_text("utf-8", "replace") if file.is_file() else None
    except OSError:
        return None


def named(contract: EngineContract, argv: Sequence[str], newest: str | None) -> tuple[str, ...]:
    """Return the arguments with the id of the latest session in place of the option that asks for it."""
    tokens: list[str] = []
    for at, token in enumerate(argv):
        replaced = contract.launch.newest_session_options.get(token, (token,)) if "--" not in argv[:at] else (token,)
        tokens += [part.replace("{handle}", newest or contract.handle.nonexistent_id) for part in replaced]
    return tuple(tokens)


def _auto_approving(tokens: tuple[str, ...], contract: EngineContract) -> tuple[str, ...]:
    """Return the options that let the engine act without asking, except one that chooses settings: these tell it."""
    paths = "".join(f"{one.path}{one.over}{one.found}" for one in simulation(contract).approval_files)
    flags = tuple(flag for flag in contract.auto_flags if f"{{{flag.flag}}}" not in paths)
    return auto_flags_in(as_in_contract(tokens, contract), Flags(flags, contract.options))


def _stdin() -> str:
    try:
        mode = os.fstat(0).st_mode
    except OSError:
        return "closed"
    if stat.S_ISCHR(mode):
        return "terminal" if os.isatty(0) else "null"
    return next((name for test, name in _KINDS if test(mode)), "other")


def main(folder: str) -> Never:
    """Play the plan in a folder, and exit at once: there is nothing to clean up."""
    gc.freeze()
    gc.enable()
    try:
        code = _play(Path(folder), tuple(sys.argv[1:]))
    except TurngateError as wrong:
        sys.stderr.write(f"turngate: {wrong}\n")
        sys.stderr.flush()
        code = USAGE
    except BrokenPipeError as gone:  # nobody reads what it prints
        print_last(gone)
        code = 1
    os._exit(code)


def _play(folder: Path, argv: tuple[str, ...]) -> int:
    whole = compiled.read(folder)
    plan, contract = whole.plan, whole.contract
    provide(contract, whole.simulation)
    contract = arguments.in_chosen_output(contract, argv)
    record = CallRecord(folder)
    given = tuple(sorted(os.environ))
    os.environ.setdefault("HOME", str(folder / HOME))  # an engine without it looks the user up
    newest = _newest(contract) if set(argv) & contract.launch.newest_session_options.keys() else None
    started = replace(described(contract, argv, os.environ, newest), env=given)
    if started.newest_session and started.resumed is None:
        started = replace(started, resumed=_newest(contract))
    if not plan.real and started.kind in ("turn", "process") and (why := arguments.unplayed(contract, argv)):
        started = replace(started, kind="unknown", problem=why)
    if plan.real and started.kind == "unknown":  # the CLI itself knows the command, or decides about its arguments
        is_command = arguments.query(contract, argv) is not None
        started = replace(started, kind="query", problem="") if is_command else replace(started, kind="refused")
    record.begin(started)
    if plan.real:
        from turngate_probes.conform import passthrough  # noqa: PLC0415 - slow to import

        return passthrough.run(plan, contract, record, started)
    call = _Call(plan, contract, record, started.kind)
    if started.kind == "turn":
        unread = any(play.exits_unread for play in plan.plays)
        call.turn = _turn_in(plan, contract, started, "" if unread else call.prompt(started))
        call.faults = for_turn(plan.plays, call.turn)
    elif started.kind == "process":
        call.faults = _at_start(plan)
    return call.played(named(contract, argv, newest))


def _turn_in(plan: ConformPlan, contract: EngineContract, started: Started, prompt: str) -> int:
    """Return the number of the turn; a lost session has had one. Every attempt of the last turn is that turn."""
    user_texts = []
    if started.resumed is not None:
        session = store(contract, os.environ, started.cwd).find(started.resumed)
        messages = session.messages if session else ({"role": "user", "content": ""},)
        user_texts = [str(message["content"]) for message in messages if message["role"] == "user"]
    return min(scenario_model.reached(plan.conversations, [*user_texts, prompt]), plan.turns)


def _at_start(plan: ConformPlan) -> Faults:
    """Return what a process for several turns plays before its first one."""
    launcher = any(play.child == "works" for play in plan.plays)
    return replace(for_turn(plan.plays, 1), child="works" if launcher else None)


def _newest(contract: EngineContract) -> str | None:
    """Return the id of the latest session in this directory."""
    cwd = str(Path.cwd())
    return store(contract, os.environ, cwd).in_order(cwd)


def _upgrade(plan: ConformPlan) -> str:
    from turngate_probes.conform import executable  # noqa: PLC0415 - slow to import, and few scenarios need it

    return executable.upgrade(plan)


class _Call(SimulatedProcess):
    """One call, which is recorded."""

    def __init__(self, plan: ConformPlan, contract: EngineContract, record: CallRecord, kind: Kind) -> None:
        super().__init__(contract, kind, NONE, collects=True)
        self.plan, self.record, self.turn = plan, record, 1
        self.printed = {"stdout": bytearray(), "stderr": bytearray()}
        self.received: RecordedStdin | None = None

    def prompt(self, started: Started) -> str:
        """Return the prompt, which shows what to play; one on standard input is read first, as by any engine."""
        if started.prompt is not None:
            return started.prompt
        self.prove()
        self.received = RecordedStdin(self.record)
        return self.received.whole().decode("utf-8", "replace")

    def played(self, argv: tuple[str, ...]) -> int:
        """Run the engine, play its output, and record the call; the launcher of an engine records nothing."""
        code = self.run(argv, self._answer, self._faults_in)
        if self.launched:
            return code
        if self.received and self.kind == "turn":
            self.received.over.wait(STDIN_GRACE)
        self._note_end(code)
        if self.faults.release == "after":
            _upgrade(self.plan)
        if self.faults.release == "gone":
            Path(self.plan.folder, BIN, self.contract.executable).unlink()
        return code

    def stdin(self) -> BinaryIO:
        """Return standard input, which is recorded."""
        self.received = self.received or RecordedStdin(self.record)
        if self.faults.waits_for_stdin:
            self.received.over.wait()
        if self.faults.release == "during":
            self.write("stderr", UPDATED.format(version=_upgrade(self.plan)).encode())
        return io.BufferedReader(self.received)

    def write(self, stream: Stream, data: bytes) -> None:
        """Write to a stream of the process, and record what is printed."""
        self.printed[stream] += data
        if self.kind == "process" and stream == "stdout":
            self.record.printed(data)
        super().write(stream, data)
        if stream == "stderr" and self.faults.stderr_bytes:
            self.record.flooded(len(data))

    def note(self, data: bytes) -> None:
        """Record what comes otherwise than on standard input as if it came there."""
        self.record.read(data)

    def entered(self, cwd: str) -> None:
        """Record the directory of the session."""
        if self.kind == "process":
            self.record.worked_in(os.path.realpath(cwd))
            if self.faults.together:
                self._await_others()

    def signalled(self, name: str) -> None:
        """Record a signal."""
        self.record.signalled(name)

    def exits(self, code: int) -> None:
        """Record the end of a process for several turns; of a turn that was ended, nobody reads the code."""
        if self.kind == "process":
            self._note_end(code)

    def perform(self, handle: str | None) -> None:
        """Record the session, wait for other conversations, and print what was collected."""
        if handle:
            self.record.session(handle)
        if self.faults.together:
            self._await_others()
        super().perform(handle)

    def _note_end(self, code: int) -> None:
        self.record.end(self._printed_handle(), code, bytes(self.printed["stdout"]), bytes(self.printed["stderr"]))

    def _await_others(self) -> None:
        """Wait until every conversation of the scenario has come to this turn; a process may have several."""
        deadline = time.monotonic() + TOGETHER
        (self.record.folder / f"waiting-{self.turn}-{threading.get_ident()}").touch()
        waiting = f"{CALLS}/*/waiting-{self.turn}-*"
        while time.monotonic() < deadline:
            if len(list(Path(self.plan.folder).glob(waiting))) >= len(self.plan.conversations):
                return
            time.sleep(POLL)

    def _faults_in(self, turn: int, prompt: str) -> Faults:
        """Return what a process for several turns plays in a turn, which its prompt tells better than its number."""
        if self.kind == "process" and turn:
            prompts = [text for talk in self.plan.conversations for text in enumerate(talk.prompts, 1)]
            self.turn = next((nr for nr, text in reversed(prompts) if text in prompt), min(turn, self.plan.turns))
            self.faults = for_turn(self.plan.plays, self.turn)
        return self.faults

    def _answer(self, request: ModelRequest) -> Answer:
        if not self.plan.conversations:
            return backend(os.environ, self.contract.hermetic.tool_call)(request)
        texts = (str(message["content"]) for message in request.messages if message["role"] == "user")
        note_request(Path(self.plan.folder), request.model, texts)
        decoy = self.contract.handle.nonexistent_id
        return scenario_model.answer(request, self.plan.conversations, self.plan.turns, self.faults, decoy)
