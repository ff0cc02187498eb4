"""What a sticky process costs and saves on real engines, compared to a process for each turn."""

import queue
import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.probes import engines
from tests.tools.bench.form import Tally
from tests.tools.bench.rows import Measured, Row, measured
from turngate.argv import build
from turngate.contract.engine_contract import EngineContract
from turngate.files import default_cache
from turngate.model import Mode
from turngate.process.execution import ProcessOutcome, ProcessRequest, Stdin, run
from turngate.turn.read import read_turn
from turngate_probes.harness.driver import ASK, FINAL
from turngate_probes.harness.sandbox import Sandbox, sandbox
from turngate_probes.stub_model import StubRule
from turngate_reference.server.transports.events import Opened, OpenRequest, ProcessEvent, TurnEnded
from turngate_reference.server.transports.host import ProcessHost

ENGINES = ("codex", "gemini", "opencode")
ROWS = tuple(
    Row(f"sticky-resume.{engine}", f"From reply to answer in a sticky process of {engine}", "s", "a resume")
    for engine in ENGINES
)
ROUNDS = Tally(full=3, short=1)
PATIENCE = 120
PROMPTS = ("Ask me which colour I like.", "blue")
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of two turns: seconds of both, seconds and CPU seconds of the second, and memory held between them."""

    both: float
    seconds: float
    cpu_seconds: float
    held: int


Way = Callable[[EngineContract, Path, Sandbox], Cost]


def bench(*, short: bool) -> Iterator[Measured]:
    """Measure both ways; print a table of medians, both ways alternately, each in a fresh home."""
    print("  | engine | way | both turns | from reply to answer | CPU of that | memory held while waiting |")
    print("  |---|---|---|---|---|---|")
    for engine in ENGINES:
        contract, executable = engines.pinned_release(engine)
        ways: dict[str, Way] = {"sticky": _sticky, "resume": resumed}
        costs: dict[str, list[Cost]] = {name: [] for name in ways}
        for _ in range(ROUNDS.of(short=short)):
            for name, way in ways.items():
                with sandbox(contract.hermetic, default_cache() / "sandboxes", f"bench-{engine}", keep=False) as box:
                    costs[name].append(way(contract, executable, box))
        for name, spent in costs.items():
            print(f"  | {engine} {contract.version} | {name} | {_row(spent)} |", flush=True)
        kept, started = ([cost.seconds for cost in costs[name]] for name in ways)
        yield measured(f"sticky-resume.{engine}", kept, started)


def _row(costs: list[Cost]) -> str:
    both, seconds, cpu, held = (
        statistics.median(values)
        for values in zip(
            *((cost.both, cost.seconds, cost.cpu_seconds, cost.held / MIB) for cost in costs), strict=True
        )
    )
    return f"{both:.2f} s | {seconds:.2f} s | {cpu:.2f} s | {held:.0f} MiB"


def _sticky(contract: EngineContract, executable: Path, box: Sandbox) -> Cost:
    reported: queue.SimpleQueue[ProcessEvent] = queue.SimpleQueue()
    request = OpenRequest(
        executable=executable,
        contract=contract,
        cwd=box.work,
        env=box.env(contract.hermetic, box.work),
        mode=Mode.INTERACTIVE,
        tag=uuid.uuid4().hex,
        traces=box.root / "traces",
        model=contract.hermetic.model,
    )
    with closing(ProcessHost()) as host:
        start = time.perf_counter()
        host.open("run", request, reported.put)
        opened = _until(reported, Opened)
        _turn(host, reported, box, 0)
        before, held = _cpu(opened.pid), _rss(opened.pid)
        replied = time.perf_counter()
        _turn(host, reported, box, 1)
        end = time.perf_counter()
        return Cost(end - start, end - replied, _cpu(opened.pid) - before, held)


def _turn(host: ProcessHost, reported: "queue.SimpleQueue[ProcessEvent]", box: Sandbox, number: int) -> None:
    box.backend.script(StubRule((ASK, FINAL)[number]))
    host.prompt("run", PROMPTS[number])
    ended = _until(reported, TurnEnded)
    if ended.failure is not None or ended.final_text != (ASK, FINAL)[number].text:
        raise RuntimeError(f"turn {number + 1} came to {ended}")


def _until(reported: "queue.SimpleQueue[ProcessEvent]", kind: type[Any]) -> Any:
    while not isinstance(event := reported.get(timeout=PATIENCE), kind):
        pass
    return event


def resumed(contract: EngineContract, executable: Path, box: Sandbox) -> Cost:
    """Run two turns of an engine by its own command, the second one as a resume."""
    given: dict[str, Any] = {
        "options": tuple(map(box.fill, contract.hermetic.options)),
        "model": contract.hermetic.model,
        "workspace": box.root,
    }
    box.backend.script(StubRule(ASK))
    first = _run(executable, build.first_turn(contract, PROMPTS[0], Mode.INTERACTIVE, **given), contract, box)
    read = read_turn(contract, Mode.INTERACTIVE, first.stdout, first.stderr, first.exit_code)
    if read.session is None:
        raise RuntimeError(f"turn 1 printed no session id: {first.stderr!r}")
    box.backend.script(StubRule(FINAL))
    session = read.session.handle_value
    again = _run(
        executable, build.resumed_turn(contract, PROMPTS[1], Mode.INTERACTIVE, session, **given), contract, box
    )
    streams = (again.stdout, again.stderr, again.exit_code)
    read = read_turn(contract, Mode.INTERACTIVE, *streams, turn_index=2, resumed=session)
    if read.final_text != FINAL.text:
        raise RuntimeError(f"turn 2 answered {read.final_text}: {again.stderr!r}")
    return Cost(first.seconds + again.seconds, again.seconds, again.cpu_seconds, 0)


def _run(executable: Path, built: build.Invocation, contract: EngineContract, box: Sandbox) -> ProcessOutcome:
    command = (str(executable), *built.arguments)
    stdin = built.stdin if built.stdin is not None else Stdin.CLOSED
    return run(ProcessRequest(command, box.work, box.env(contract.hermetic, box.work), stdin, PATIENCE))


def _tree(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def _cpu(pid: int) -> float:
    """Sum the CPU seconds of a process and its descendants, including ended ones that they reaped."""
    total = 0.0
    for process in _tree(pid):
        with suppress(psutil.NoSuchProcess):
            total += sum(process.cpu_times()[:4])
    return total


def _rss(pid: int) -> int:
    """Sum the resident memory of a process and its descendants."""
    total = 0
    for process in _tree(pid):
        with suppress(psutil.NoSuchProcess):
            total += process.memory_info().rss
    return total
