"""The executable that an orchestrator starts: a simulated engine that plays its part and records the call.

A call is described by its arguments, its environment, and its standard input.
"""

import gc
import io
import os
import resource
import signal
import stat
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Never

from msgspec.structs import replace

from turngate import EngineContract, TurngateError
from turngate.argv.auto_flags import auto_flags_in
from turngate.argv.file_slot import as_in_contract
from turngate.contract.launch import Stream
from turngate.contract.structs import Deviation
from turngate_probes.conform import compiled, model
from turngate_probes.conform.calls import CALLS, CallRecord, Started
from turngate_probes.conform.heard import Heard
from turngate_probes.conform.misbehaviour import Halt, Output, for_turn, steps
from turngate_probes.conform.plan import Plan, Play
from turngate_probes.simulate import arguments, engine
from turngate_probes.simulate.arguments import UsageProblem
from turngate_probes.simulate.backend import Answer, EngineContext, ModelRequest, backend
from turngate_probes.simulate.printing import provide, simulation
from turngate_probes.simulate.sticky.start import starts_sticky
from turngate_probes.simulate.store import store

_KINDS = ((stat.S_ISFIFO, "pipe"), (stat.S_ISREG, "file"), (stat.S_ISSOCK, "socket"), (stat.S_ISCHR, "device"))


def described(contract: EngineContract, argv: tuple[str, ...], env: Mapping[str, str], newest: str | None) -> Started:
    """Return what is known of a call at its start; `newest` is the id of the latest session in the directory."""
    start = Started(os.getpid(), argv, str(Path.cwd()), tuple(sorted(env)), _stdin(), time.monotonic(), kind="query")
    questions = [contract.version_query.argv, *(page.argv for page in contract.help.pages)]
    asking = contract.sticky.interactive
    if argv in questions or (asking and asking.query and argv == asking.query.argv):
        return start
    if starts_sticky(contract, argv):
        return replace(start, kind="process", widening=_widening(argv, contract))
    latest = tuple(token for token in argv if token in contract.launch.latest)
    try:
        asked = arguments.read(contract, named(contract, argv, newest))
    except UsageProblem as problem:
        before = argv[: argv.index("--")] if "--" in argv else argv
        return replace(start, kind="refused", problem=str(problem), widening=_widening(before, contract))
    chosen = asked.line.last(simulation(contract).arguments.working_directory)
    tokens = tuple(token for token in argv if token != asked.prompt)
    widening = _widening(tokens, contract)
    return replace(
        start,
        kind="turn",
        cwd=str(Path(start.cwd, chosen or "")),
        resumed=asked.handle,
        prompt=asked.prompt,
        latest=" ".join(latest),
        widening=widening,
    )


def named(contract: EngineContract, argv: Sequence[str], newest: str | None) -> tuple[str, ...]:
    """Return the arguments with the id of the latest session in place of the option that asks for it."""
    tokens: list[str] = []
    for at, token in enumerate(argv):
        replaced = contract.launch.latest.get(token, (token,)) if "--" not in argv[:at] else (token,)
        tokens += [part.replace("{handle}", newest or contract.handle.nonexistent_id) for part in replaced]
    return tuple(tokens)


def _widening(tokens: tuple[str, ...], contract: EngineContract) -> tuple[str, ...]:
    return auto_flags_in(as_in_contract(tokens, contract), contract)


def _stdin() -> str:
    try:
        mode = os.fstat(0).st_mode
    except OSError:
        return "closed"
    if stat.S_ISCHR(mode):
        return "terminal" if os.isatty(0) else "null"
    return next((name for test, name in _KINDS if test(mode)), "other")


USAGE = 2
STDIN_GRACE = 1.0  # seconds that the caller has after the answer to end standard input
_SESSION_TROUBLE = {
    "fresh": Deviation("resume.dead-handle", "fresh-session", "notice it"),
    "renamed": Deviation("resume.same-handle", "new-handle", "resume the new id"),
}
_BEGAN = time.monotonic()
SLOWER = 5  # times what the call took so far: on a busy machine, the caller is slower too
TOGETHER, POLL = 10.0, 0.02  # seconds
UPDATED = "Updated to {version}. The new version is used from the next start on.\n"


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
    os._exit(code)


def _play(folder: Path, argv: tuple[str, ...]) -> int:
    whole = compiled.read(folder)
    plan, contract = whole.plan, whole.contract
    provide(contract, whole.simulation)
    record = CallRecord(folder)
    newest = _newest(contract) if set(argv) & contract.launch.latest.keys() else None
    started = described(contract, argv, os.environ, newest)
    record.begin(started)
    if plan.real:
        from turngate_probes.conform import passthrough  # noqa: PLC0415 - slow to import

        return passthrough.run(plan, contract, record, argv)
    play = _part(plan, contract, started) if started.kind == "turn" else Play()
    if play.child == "works" and _is_launcher():
        return 1
    call = _Call(plan, contract, record, play, started.kind)
    code = call.run(named(contract, argv, newest))
    if play.release == "after":
        _upgrade(plan)
    return code


def _part(plan: Plan, contract: EngineContract, started: Started) -> Play:
    """Return what to play in this turn, whose number is one more than the prompts of the session so far."""
    handle = started.resumed
    if handle is None:
        return for_turn(plan.plays, 1)
    session = store(contract, os.environ, started.cwd).find(handle)
    asked = sum(message["role"] == "user" for message in session.messages) if session else 1
    return for_turn(plan.plays, asked + 1)


def _newest(contract: EngineContract) -> str | None:
    """Return the id of the latest session in this directory."""
    cwd = str(Path.cwd())
    sessions = [session for session in store(contract, os.environ, cwd).sessions() if session.cwd == cwd]
    return max(sessions, key=lambda session: session.began_at).handle if sessions else None


def _upgrade(plan: Plan) -> str:
    from turngate_probes.conform import executable  # noqa: PLC0415 - slow to import, and few scenarios need it

    return executable.upgrade(plan)


def _is_launcher() -> bool:
    """Start the process that does the work; True in the launcher, once that has ended, False in the other."""
    if child := os.fork():
        os.waitpid(child, 0)
        return True
    return False


class _Call:
    """One call: its engine context, and what it prints in the end."""

    def __init__(self, plan: Plan, contract: EngineContract, record: CallRecord, play: Play, kind: str) -> None:
        self.plan, self.contract, self.record, self.play, self.kind = plan, contract, record, play, kind
        self.outputs: list[Output] = []
        self.handle: str | None = None
        self.printed = bytearray()

    def run(self, argv: tuple[str, ...]) -> int:
        """Run the engine, and play its output."""
        self._heed_signals()
        heard = Heard(self.record)
        if self.play.waits_for_stdin:
            heard.over.wait()
        if self.play.release == "during":
            version = _upgrade(self.plan)
            self._write("stderr", UPDATED.format(version=version).encode())
        directly = self.kind == "process"
        world = EngineContext(
            env=os.environ,
            cwd=str(Path.cwd()),
            stdin=io.BufferedReader(heard),
            write=self._write if directly else lambda stream, data: self.outputs.append(Output(stream, data)),
            hang=_hang,
            clock=time.time,
            backend=self._answer,
            in_session=self._enter,
        )
        contract = self._rehearsed()
        code = engine.run(contract, argv, world)
        handle = self._printed_handle()
        if handle:
            self.record.session(handle)
        self._perform(handle)
        if self.kind == "turn":
            heard.over.wait(STDIN_GRACE)
            code = code if self.play.exit_code is None else self.play.exit_code
        self.record.end(handle, code, bytes(self.printed))
        return code

    def _perform(self, handle: str | None) -> None:
        """Print the output as the play wants it; some plays never return."""
        time.sleep(self.play.delay)
        if self.play.together:
            self._await_others()
        for step in steps(self.contract, self.outputs, handle, self.play):
            match step:
                case Output():
                    self._write(step.stream, step.data)
                case Halt("pause"):
                    time.sleep(self.play.pause + SLOWER * (time.monotonic() - _BEGAN))
                case Halt("hang"):
                    _hang()
                case Halt("crash"):
                    _crash()
        if self.play.child == "stays" and not os.fork():
            _hang()

    def _await_others(self) -> None:
        """Wait until every conversation of the scenario has come as far as this one."""
        deadline = time.monotonic() + TOGETHER
        (self.record.folder / "waiting").touch()
        waiting = f"{CALLS}/*/waiting"
        while time.monotonic() < deadline:
            if len(list(Path(self.plan.folder).glob(waiting))) >= len(self.plan.conversations):
                return
            time.sleep(POLL)

    def _rehearsed(self) -> EngineContract:
        """Return the contract with the session trouble of the play, which may also remove the session."""
        if self.play.session in ("lost", "fresh"):
            sessions = store(self.contract, os.environ, str(Path.cwd()))
            for session in sessions.sessions():
                sessions.drop(session)
        declared = _SESSION_TROUBLE.get(self.play.session or "")
        return replace(self.contract, deviations=(declared,)) if declared else self.contract

    def _answer(self, request: ModelRequest) -> Answer:
        if not self.plan.conversations:
            return backend(os.environ, self.contract.hermetic.tool_call)(request)
        decoy = self.contract.handle.nonexistent_id
        play = self.play
        if self.kind == "process":
            play = for_turn(self.plan.plays, sum(message["role"] == "user" for message in request.messages))
            if play.hang == "before":
                _hang()
        return model.answer(request, self.plan.conversations, self.plan.turns, play, decoy)

    def _enter(self, handle: str) -> None:
        self.handle = handle

    def _printed_handle(self) -> str | None:
        """Return the session id of a turn, if it would print it if it behaved well."""
        if self.kind != "turn" or self.handle is None:
            return None
        return self.handle if any(self.handle.encode() in row.data for row in self.outputs) else None

    def _write(self, stream: Stream, data: bytes) -> None:
        out = sys.stdout.buffer if stream == "stdout" else sys.stderr.buffer
        if stream == "stdout":
            self.printed += data
        out.write(data)
        out.flush()

    def _heed_signals(self) -> None:
        """Record SIGINT and SIGTERM; then ignore them if the play says so, or else do what the real engine does."""
        codes = simulation(self.contract).signals

        def heed(number: int, _frame: object) -> None:
            name = signal.Signals(number).name
            self.record.signalled(name)
            code = codes.get(name)
            if name in self.play.ignores or (name in codes and code is None):
                return
            if code is not None:
                os._exit(code)
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, heed)


def _hang() -> Never:
    while True:
        signal.pause()


def _crash() -> Never:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.abort()
