"""The simulated engine as a process: its streams, its signals, and the executable that runs it."""

import fcntl
import io
import os
import resource
import select
import shlex
import signal
import stat
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import BinaryIO, Literal, Never

from msgspec.structs import replace

from turngate import EngineContract, MachineError, TurngateError, UsageError, load_contract
from turngate.argv.file_slot import SLOT
from turngate.contract.engine_contract import Deviation
from turngate.contract.home_and_workspace import ToolUse
from turngate.contract.launch import Stream
from turngate.contract.simulation import SIGNALS
from turngate.files import overlay, use_overlay
from turngate_probes.simulate import engine
from turngate_probes.simulate.arguments import in_chosen_output
from turngate_probes.simulate.backend import Backend, EngineContext, Stopped, backend
from turngate_probes.simulate.faults import LEFT_ALONE, NONE, Faults, parsed
from turngate_probes.simulate.misbehaviour import BOM, UNREAD, FaultyOutput, Halt, heartbeat, misled, steps
from turngate_probes.simulate.printing import simulation
from turngate_probes.simulate.sticky.message_queue import HEED
from turngate_probes.simulate.sticky.process_start import starts_sticky
from turngate_probes.simulate.store import store

USAGE = 2
BEAT = 0.5  # seconds
SLOWER = 5  # times what the call took so far: on a busy machine, the caller is slower too
CONTINUES = 0x80  # the first two bits of a byte in the middle of a character
READER, POLL = 0.1, 0.002  # seconds
_BEGAN = time.monotonic()
_TROUBLE = {
    "fresh": Deviation("resume.dead-handle", "fresh-session", "notice it"),
    "changed": Deviation("resume.same-handle", "new-handle", "resume the new id"),
}
Kind = Literal["query", "turn", "process", "refused", "unknown"]


def main(*faulty: str, own: str = "") -> Never:
    """Run the engine in the first argument, at the version in the second, with these faults, and exit.

    `own` is the folder of the user's contracts; empty: there is none.
    """
    engine, version, *argv = sys.argv[1:]
    use_overlay(Path(own) if own else None)
    try:
        sys.exit(simulate(load_contract(engine, version or None), argv, parsed(faulty)))
    except TurngateError as wrong:
        sys.stderr.write(f"turngate: {wrong}\n")
        sys.exit(USAGE)
    except BrokenPipeError as gone:  # nobody reads what it prints
        print_last(gone)
        os._exit(1)  # an exit would write once more


def print_last(error: OSError) -> None:
    """Print why output could not be written, if there is still somebody to tell."""
    with suppress(OSError):
        os.write(2, f"{error.strerror or error}\n".encode())


def simulate(contract: EngineContract, argv: Sequence[str], faults: Faults = NONE) -> int:
    """Run the simulation on this process's own streams, directory and environment; return the exit code."""
    contract = in_chosen_output(contract, argv)
    tool, decoy = tool_here(contract), contract.handle.nonexistent_id
    call = SimulatedProcess(contract, kind_of(contract, argv), faults, collects=faults != NONE)
    return call.run(argv, misled(backend(os.environ, tool), faults, decoy), lambda *_: faults)


def tool_here(contract: EngineContract) -> ToolUse | None:
    """Return the use of a tool that the contract names, in this directory."""
    cwd, tool = str(Path.cwd()), contract.hermetic.tool_call
    if tool is None:
        return None
    filled = {k: v.replace("{work}", cwd) if isinstance(v, str) else v for k, v in tool.arguments.items()}
    return replace(tool, arguments=filled)


def kind_of(contract: EngineContract, argv: Sequence[str]) -> Kind:
    """Return the kind of a call; one that the engine refuses counts as a turn."""
    if engine.about_itself(contract, argv, os.environ) is not None:
        return "query"
    return "process" if starts_sticky(contract, argv) else "turn"


class SimulatedProcess:
    """One call of a simulated engine: this process, with its streams, its signals and its faults.

    If it `collects`, a turn's output is printed when the turn has ended, as the faults want it; otherwise at once.
    """

    def __init__(self, contract: EngineContract, kind: Kind, faults: Faults, *, collects: bool) -> None:
        self.contract, self.kind, self.faults = contract, kind, faults
        self.collects = collects and kind == "turn"
        self.outputs = list[FaultyOutput]()
        self.launched = self._is_proven = False
        self.handle: str | None = None
        # as the release does, unless faults are played, which a pipe must not hide
        declared = any((d.clause, d.symptom) == ("answer.whole", "cut") for d in contract.deviations)
        self._undrained = kind == "turn" and (faults.exits_undrained or (declared and faults == NONE))
        self._is_full = False

    def run(
        self, argv: Sequence[str], backend: Backend, faults_in: Callable[[int, str], Faults] = lambda *_: NONE
    ) -> int:
        """Run the call with a model's backend and, for a sticky process, the faults of each turn; return its exit code.

        It never returns if a fault says so.
        """
        if self.faults.child == "works" and self.kind != "query" and _is_launcher():
            self.launched = True
            return 1
        self._heed_signals()
        if self.kind == "process":
            self.write("stderr", self.faults.notice.encode())
            self.write("stdout", (BOM if self.faults.bom else b"") + self.faults.banner.encode())
        if self.faults.exits_unread and self.kind == "turn":
            self.write("stderr", UNREAD.encode())
            return 1
        if self.kind != "query":
            self.prove()
        stdin = self.stdin()
        world = EngineContext(
            env=os.environ,
            cwd=str(Path.cwd()),
            stdin=stdin,
            write=self._collect if self.collects else self.write,
            hang=self.hang,
            clock=time.time,
            backend=backend,
            faults_in=faults_in,
            has_input=_has_input,
            in_session=self._enter,
            leave=_leave,
            stay=self._stay,
            crash=_crash,
            note=self.note,
            on_signal=_call_on_signal,
            close=lambda stream: os.close(("stdin", "stdout").index(stream)),
        )
        try:
            code = engine.run(self._rehearsed(), tuple(argv), world)
        except Stopped as stopped:
            for output in self.outputs:
                self.write(*output)
            return _exit_code(self.contract, stopped.name)
        self.perform(self._printed_handle())
        return code if self.kind != "turn" or self.faults.exit_code is None else self.faults.exit_code

    def prove(self) -> None:
        """Prove that the files of the contract guard this process, unless the variables that name them were replaced.

        The caller sends no prompt before that; a second time does nothing.
        """
        guards, is_proven, self._is_proven = self.contract.guards, self._is_proven, True
        pipe = os.environ.get(guards.proof or "")
        named = [(os.environ.get(name, ""), *value.split(SLOT)) for name, value in guards.env.items() if SLOT in value]
        if pipe and not is_proven and all(v.startswith(before) and v.endswith(after) for v, before, after in named):
            Path(pipe).read_bytes()

    def stdin(self) -> BinaryIO:
        """Return standard input, once it has ended if the faults want that."""
        if self.kind == "process":
            # opened anew: a thread that still reads when the process ends must not hold the interpreter's own
            return open(0, "rb", closefd=False)
        return io.BytesIO(sys.stdin.buffer.read()) if self.faults.waits_for_stdin else sys.stdin.buffer

    def write(self, stream: Stream, data: bytes) -> None:
        """Write to a stream of the process; the rest of a cut character once the caller has read what came before."""
        if self._undrained and stream == "stdout":
            self._offer(data)
            return
        out = sys.stdout.buffer if stream == "stdout" else sys.stderr.buffer
        if self.faults.chunk and data and data[0] & 0xC0 == CONTINUES:
            _await_reader(out.fileno())
        out.write(data)
        out.flush()

    def _offer(self, data: bytes) -> None:
        """Write what a pipe takes at once; the rest, and all that follows, is lost."""
        out = sys.stdout.fileno()
        os.set_blocking(out, False)
        try:
            while data and not self._is_full:
                data = data[os.write(out, data) :]
        except BlockingIOError:
            self._is_full = True

    def hang(self) -> Never:
        """Never return. To pause would miss a signal that comes just before it, until the next one."""
        while True:
            time.sleep(HEED)

    def note(self, data: bytes) -> None:
        """Handle what a client sends otherwise than on standard input."""

    def entered(self, cwd: str) -> None:
        """Handle that a turn begins in a session of this directory."""

    def signalled(self, name: str) -> None:
        """Handle that a signal arrived, before it has its effect."""

    def exits(self, code: int) -> None:
        """Handle that a signal is about to end the process with this code."""

    def perform(self, handle: str | None) -> None:
        """Print what was collected as the faults want it."""
        if not self.collects:
            return
        time.sleep(self.faults.delay)
        if self.faults.child in LEFT_ALONE:
            _leave({} if self.faults.child == "hidden" else os.environ)
        for step in steps(self.contract, self.outputs, handle, self.faults):
            match step:
                case FaultyOutput():
                    self.write(step.stream, step.data)
                case Halt("pause"):
                    time.sleep(self.faults.pause + SLOWER * (time.monotonic() - _BEGAN))
                case Halt("hang"):
                    self.hang()
                case Halt("heartbeat"):
                    self._beat()
                case Halt("crash"):
                    _crash()
        if self.faults.child == "stays":
            self._stay()

    def _stay(self) -> None:
        """Leave a process of the same session, which holds the streams."""
        if not os.fork():
            self.hang()

    def _beat(self) -> Never:
        """Print signs of life forever, even if nobody is left to read them."""
        while True:
            with suppress(OSError):
                self.write(*heartbeat(self.contract))
            time.sleep(BEAT)

    def _collect(self, stream: Stream, data: bytes) -> None:
        self.outputs.append(FaultyOutput(stream, data))

    def _enter(self, handle: str, cwd: str) -> None:
        self.handle = handle
        self.entered(cwd)

    def _printed_handle(self) -> str | None:
        """Return the session id of a turn, if it would print it if it behaved well."""
        if self.kind != "turn" or self.handle is None:
            return None
        return self.handle if any(self.handle.encode() in row.data for row in self.outputs) else None

    def _rehearsed(self) -> EngineContract:
        """Return the contract with the session trouble of the faults, which may also remove the sessions."""
        if self.kind != "turn":
            return self.contract
        if self.faults.session:
            sessions = store(self.contract, os.environ, str(Path.cwd()))
            for session in sessions.sessions():
                sessions.drop(session)
        declared = _TROUBLE.get("changed" if self.faults.changes_session else self.faults.session or "")
        return replace(self.contract, deviations=(declared,)) if declared else self.contract

    def _heed_signals(self) -> None:
        """Handle SIGINT and SIGTERM as the faults or else the simulation say: ignore them, or exit with a code.

        One that is printed about raises Stopped; any other kills.
        """
        described = simulation(self.contract)
        kept = described.sticky_signals if self.kind == "process" else None
        codes = described.signals if kept is None else kept
        reported = described.stopping if self.kind != "process" and not self.collects else {}

        def heed(number: int, _frame: object) -> None:
            name = signal.Signals(number).name
            self.signalled(name)
            if self.faults.ignores_termination or (name in codes and codes[name] is None):
                return
            if name in reported:
                raise Stopped(name)
            if (code := codes.get(name)) is not None:
                self.exits(code)
                os._exit(code)
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

        for name in SIGNALS:
            signal.signal(signal.Signals[name], heed)
        if self.faults.asks_on_signal:
            # before any thread starts, since a thread that does not block it would be ended
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})


def _await_reader(pipe: int) -> None:
    """Wait until a pipe is empty, so that its reader gets the parts of a character one by one; not for long."""
    deadline = time.monotonic() + READER
    with suppress(OSError):
        # Node.js makes sockets of pipes, and a socket counts what it has sent apart from what it has received
        unread = termios.TIOCOUTQ if stat.S_ISSOCK(os.fstat(pipe).st_mode) else termios.FIONREAD
        while time.monotonic() < deadline and any(fcntl.ioctl(pipe, unread, bytes(4))):
            time.sleep(POLL)


def _call_on_signal(function: Callable[[], object]) -> None:
    """Call a function for each SIGUSR1, in a thread: a handler could interrupt the main thread as it writes."""

    def wait() -> None:
        while signal.sigwait({signal.SIGUSR1}):
            function()

    Thread(target=wait, daemon=True).start()


def _leave(env: Mapping[str, str]) -> None:
    """Leave a process that sleeps, with these variables, whose parent and session are others."""
    if child := os.fork():
        os.waitpid(child, 0)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    # with its own arguments after those of Python, so that it can be found
    sleep = (sys.executable, "-I", "-S", "-c", "import signal; signal.pause()")
    os.execve(sys.executable, (*sleep, *sys.orig_argv[1:]), env)  # noqa: S606 - no shell is wanted


def _is_launcher() -> bool:
    """Start the process that does the work; True in the launcher, once that has ended, False in the other."""
    if child := os.fork():
        os.waitpid(child, 0)
        return True
    return False


def _crash() -> Never:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.abort()


def install(contract: EngineContract, folder: Path, faulty: Sequence[str] = ()) -> Path:
    """Write an executable, named like the engine's, that simulates the release; TurngateError if that fails.

    It keeps the user's contracts that are in force now.
    """
    from turngate.process.executable import MARKER, is_simulated  # noqa: PLC0415 - not needed to be an engine

    simulation(contract)
    path = folder / contract.executable
    # -P: a file in the engine's working directory must not replace one of turngate's modules
    run = f"main(*{tuple(faulty)!r}, own={str(overlay() or '')!r})"
    code = f"from turngate_probes.simulate.simulated_process import main; {run}"
    command = shlex.join([sys.executable, "-P", "-c", code, contract.engine, contract.version or ""])
    try:
        if path.exists() and not is_simulated(path):
            raise UsageError(f"{path} is another file", "choose another folder")
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#!/bin/sh\n{MARKER.decode()}\nexec {command} "$@"\n', "utf-8")
        path.chmod(0o755)
    except OSError as error:
        raise MachineError(f"can't write {path}: {error}", "choose a writable folder") from error
    return path


def _exit_code(contract: EngineContract, name: str) -> int:
    """Return the exit code after a signal; it kills if there is none."""
    code = simulation(contract).signals.get(name)
    if code is None:
        number = signal.Signals[name]
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
    return code or 0


def _has_input(milliseconds: int) -> bool:
    return bool(select.select([sys.stdin], [], [], milliseconds / 1000)[0])
