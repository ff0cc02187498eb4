"""Runs the simulator inside the test's own process, with a model, a clock and streams of the test's making."""

import io
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NoReturn

from tests.tables import each
from turngate.argv import build
from turngate.contract import load
from turngate.contract.engine_contract import EngineContract
from turngate.files import simulation_files
from turngate.model import Ended, Mode
from turngate.turn.read import TurnReading, read_turn
from turngate_probes.releases import recorded_releases
from turngate_probes.releases.pins import pinned_version
from turngate_probes.simulate.backend import Answer, EngineContext, ModelRequest, Stopped
from turngate_probes.simulate.engine import run
from turngate_probes.simulate.faults import NONE, Faults
from turngate_probes.simulate.simulated_process import install


class HungError(Exception):
    """The simulated engine hangs."""


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of one call; an `exit_code` of None means that it hung or was stopped."""

    exit_code: int | None
    stdout: bytes
    stderr: bytes
    requests: tuple[ModelRequest, ...]

    def reading(self, contract: EngineContract, mode: Mode = Mode.AUTO, resumed: str | None = None) -> TurnReading:
        """Return the turn as an orchestrator reads it."""
        return read_turn(
            contract,
            mode,
            self.stdout,
            self.stderr,
            self.exit_code,
            resumed=resumed,
            ended=Ended.EXIT if self.exit_code is not None else Ended.TIMEOUT,
        )

    def session(self, contract: EngineContract) -> str:
        """Return the session id that the turn reported."""
        session = self.reading(contract).session
        assert session is not None, self
        return session.handle_value


@dataclass
class SimulatedMachine:
    """A home, a working directory, a clock, and a model that returns `answers` in order, then `ok`."""

    root: Path
    now: float = 1_000_000_000.0
    work: str = "work"
    answers: Iterable[Answer | Callable[[], NoReturn]] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    faults: Faults = NONE
    _requests: list[ModelRequest] = field(default_factory=list)

    def start(self, contract: EngineContract, prompt: str = "first", mode: Mode = Mode.INTERACTIVE) -> CallResult:
        """Run a first turn."""
        built = build.first_turn(contract, prompt, mode)
        return self.call(contract, built.arguments, built.stdin or b"")

    def resume(self, contract: EngineContract, handle: str, prompt: str = "again") -> CallResult:
        """Run a resumed turn, whether or not the session id is valid."""
        built = build.resumed_turn(contract, prompt, Mode.INTERACTIVE, handle)
        return self.call(contract, built.arguments, built.stdin or b"")

    def call(self, contract: EngineContract, arguments: Iterable[str], stdin: bytes | BinaryIO = b"") -> CallResult:
        """Run one call of the simulated engine."""
        answers, before = iter(self.answers), len(self._requests)
        out = {"stdout": bytearray(), "stderr": bytearray()}

        def backend(request: ModelRequest) -> Answer:
            self._requests.append(ModelRequest(request.model, tuple(request.messages), request.tools))
            answer = next(answers, "ok")
            return answer() if callable(answer) else answer

        read = io.BytesIO(stdin) if isinstance(stdin, bytes) else stdin
        world = EngineContext(
            env={"HOME": str(self.root / "home"), **self.env},
            cwd=str(self.root / self.work),
            stdin=read,
            write=lambda stream, data: out[stream].extend(data),
            hang=hang,
            clock=lambda: self.now,
            backend=backend,
            has_input=lambda _: not isinstance(stdin, Unclosed),
            faults_in=lambda _turn, _prompt: self.faults,
        )
        try:
            code: int | None = run(contract, tuple(arguments), world)
        except (HungError, Stopped):
            code = None
        return CallResult(code, bytes(out["stdout"]), bytes(out["stderr"]), tuple(self._requests[before:]))


class Unclosed(io.BytesIO):
    """Standard input that is never closed."""

    def read(self, _size: int | None = -1, /) -> bytes:
        """Wait forever."""
        hang()

    readline = read


def hang() -> NoReturn:
    """Simulate hanging."""
    raise HungError


def simulated() -> list[EngineContract]:
    """Return the contract of every engine that can be simulated, at its pinned or newest recorded release."""
    return [at_known_release(name) for name in load.engine_names() if name in simulation_files()]


def at_known_release(engine: str) -> EngineContract:
    """Return the contract of an engine at its pinned or newest recorded release."""
    return load.contract(engine).at(pinned_version(engine) or recorded_releases.newest(engine))


every_simulation = each("contract", simulated(), shown=lambda contract: contract.engine)


def install_quick(contract: EngineContract, folder: Path) -> Path:
    """Install a simulated engine that starts no Python to print its version and its help."""
    return quickened(install(contract, folder), contract)


def quickened(executable: Path, contract: EngineContract) -> Path:
    """Let a simulated engine's shell script print the version and the help itself, without a start of Python."""
    start, _, command = executable.read_text().rpartition("exec ")
    for argv in (contract.version_query.argv, *(page.argv for page in contract.help.pages)):
        said = SimulatedMachine(executable.parent).call(contract, argv)
        assert said.exit_code == 0, said
        printed = f"printf %s {shlex.quote(said.stdout.decode())}; printf %s {shlex.quote(said.stderr.decode())} >&2"
        start += f'[ "$*" != {shlex.quote(" ".join(argv))} ] || {{ {printed}; exit; }}\n'
    executable.write_text(f"{start}exec {command}")
    return executable
