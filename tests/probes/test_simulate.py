"""The simulator fulfils its contract in a probe's cases, and its turns have the shape of recorded ones."""

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from itertools import groupby, repeat
from pathlib import Path
from signal import Signals
from typing import NoReturn, TypeGuard, cast
from unittest.mock import patch

import pytest
from semver import Version

from tests.probes.engines import Spectator
from tests.probes.simulate.played import CallResult, SimulatedMachine, Unclosed, hang, simulated
from turngate import Mode
from turngate.contract import load
from turngate.contract.clauses import Result
from turngate.contract.engine_contract import EngineContract
from turngate.contract.launch import Stream
from turngate.files import simulation_files
from turngate.model import Ended
from turngate.turn.framing import framer
from turngate.turn.read import STREAMS, TurnReading
from turngate.turn.records import value_at
from turngate_probes.harness import cases, driver
from turngate_probes.harness.cases import CASES, LARGE_PROMPT, MALFORMED
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.harness.observations import Turn
from turngate_probes.harness.runner import CaseRunner
from turngate_probes.record import replay
from turngate_probes.releases import recorded_releases
from turngate_probes.simulate.backend import Answer, Called, Failed, Stopped
from turngate_probes.simulate.printing import simulation
from turngate_probes.simulate.simulated_process import install

MINUTE = 60.0
_CLAUDE_STOPPED = "a signal that ends it while it retries makes 2.1.212 to 2.1.235 print a result; simulations don't"
_CLAUDE_INTERRUPTED = "it prints no result when it is interrupted; simulations do, as later releases"
_COPILOT_ORDER = "it prints its session.* records in an order of its own; simulations, in that of 1.0.102"
_QWEN_TOLD = "it reports the failure as a success; simulations tell it, as releases from 0.23.4"
# releases, or some of their turns, whose behaviour no contract could describe, and why
EXCUSED = {
    "claude/2.1.222/backend-": _CLAUDE_STOPPED,
    "claude/2.1.222/interrupted/": _CLAUDE_INTERRUPTED,
    "claude/2.1.223/backend-": _CLAUDE_STOPPED,
    "claude/2.1.223/interrupted/": _CLAUDE_INTERRUPTED,
    "copilot/1.0.12/": "it prints no session.skills_loaded; simulations do, as releases from 1.0.45",
    "copilot/1.0.80/": _COPILOT_ORDER,
    "copilot/1.0.81/": _COPILOT_ORDER,
    "copilot/1.0.45/bad-handles/dead": "it starts a session under the unknown id; simulations print nothing then",
    "codex/0.42.0/": "it prints another vocabulary without a session id; a probe calls it broken",
    "gemini/0.20.2/": "it prints no session id; a probe calls it broken",
    "copilot/1.0.45/backend-429/": "its attempts end shortly before or after its deadline; simulations hang",
    "gemini/0.21.3/backend-429/": "it was ended at its deadline, which the simulation has no data for",
    "gemini/0.28.2/backend-429/": "its attempts end shortly before or after its deadline; simulations hang",
    "letta/0.25.9/interrupted/": "it asks for the list of models first, and was ended then; simulations don't ask",
    "letta/0.25.9/killed/": "it asks for the list of models first, and was ended then; simulations don't ask",
    "qwen/0.15.6/": "it prints no stream_event; simulations do, as releases from 0.21.10",
    "qwen/0.23.3/backend-401/": _QWEN_TOLD,
    "qwen/0.23.3/backend-cut/": _QWEN_TOLD,
    "opencode/1.3.2/backend-cut/": "it printed an event before it was ended, as it does at random",
    "opencode/1.15.13/": "it loses its last events at random, with exit code 0; a probe calls it broken",
}
Spectators = dict[str, Future[Spectator]]

DEADLINE = 2.0
STARTUP = 20.0
# with three cases of each, a small machine runs a dozen processes
ENGINES_AT_ONCE = 4
# the wait for a later minute is tested with a simulated clock instead
CASES_RUN = tuple(case for case in CASES if case.name != "later-minute")
NOT_RUN = {"resume.later-minute", "resume.isolation", "executable.unchanged"}
# a simulated engine contacts only the stub model, and offers no tool for questions, whatever the real one does
NOT_SIMULATED = {"network.loopback-only", "output.any-settings", "question.is-told"}


@pytest.fixture(scope="module", name="spectators")
def _spectators(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spectators]:
    """Run the cases of several engines in parallel, since each hangs for a while."""
    asked: list[EngineContract] = [
        cast(EngineContract, item.callspec.params["contract"]) for item in request.session.items if _asks_for_play(item)
    ]
    with (
        patch.object(cases, "_deadline", lambda _: DEADLINE),
        patch.object(driver, "STARTUP_ALLOWANCE", STARTUP),
        ThreadPoolExecutor(ENGINES_AT_ONCE) as pool,
    ):
        yield {
            mode_name(contract): pool.submit(_play, contract, tmp_path_factory.mktemp(contract.engine))
            for contract in asked
        }


def in_all_modes(contracts: Iterable[EngineContract]) -> list[EngineContract]:
    """Return the contracts in each of their output modes."""
    return [
        mode for contract in contracts for mode in (contract, *(contract.in_output(m.name) for m in contract.outputs))
    ]


def mode_name(contract: EngineContract) -> str:
    """Return the name of an engine, with its output mode if that is not the default one."""
    is_other = any(mode.name == contract.launch.output for mode in contract.outputs)
    return f"{contract.engine} {contract.launch.output}" if is_other else contract.engine


def _asks_for_play(item: pytest.Item) -> TypeGuard[pytest.Function]:
    return isinstance(item, pytest.Function) and item.function is test_the_simulator_keeps_its_contract


def _play(contract: EngineContract, folder: Path) -> Spectator:
    spectator = Spectator(contract)
    runner = CaseRunner.of(folder / "sandboxes", 3, Interrupt())
    runner.play(contract, install(contract, folder / "bin"), CASES_RUN, spectator)
    return spectator


@pytest.mark.long
@pytest.mark.nightly
@pytest.mark.parametrize("contract", in_all_modes(simulated()), ids=mode_name)
def test_the_simulator_keeps_its_contract(contract: EngineContract, spectators: Spectators) -> None:
    """Every clause passes or deviates exactly as declared, and every declared deviation occurs that is not flaky."""
    results = spectators[mode_name(contract)].result().judged("everything")
    expected = dict.fromkeys(results, Result.PASS) | dict.fromkeys(_unsupported(contract), Result.UNSUPPORTED)
    deviating = {deviation.clause for deviation in contract.deviations} - NOT_SIMULATED
    expected |= dict.fromkeys(deviating, Result.DEVIATES)
    expected |= {name: results[name].result for name in deviating & results.keys() if not _is_steady(name, contract)}
    if not all(map(shutil.which, (program for own in contract.command_sandboxes for program in own.programs))):
        expected["sandbox.command-runs"] = Result.NOT_RUN
    wrong = {
        name: f"{result.result.value}: {result.detail}"
        for name, result in results.items()
        if name not in NOT_RUN and (result.result is not expected[name] or (result.stale and name not in NOT_SIMULATED))
    }
    assert wrong == {}
    assert results.keys() | NOT_RUN == {clause.id for clause in load.catalogue().at_level("static", "hermetic")}


def _is_steady(clause: str, contract: EngineContract) -> bool:
    """Whether a release deviates from a clause each time."""
    return not all(deviation.flaky for deviation in contract.deviations if deviation.clause == clause)


def _unsupported(contract: EngineContract) -> Iterator[str]:
    """Return the clauses about something that the contract does not describe."""
    file, argument = contract.instructions, any(channel.via == "argument" for channel in contract.launch.prompt)
    described = {
        "interactive.nothing-started": contract.canaries,
        "interactive.settings-cannot-widen": contract.approval_settings,
        "workspace.cannot-redirect": contract.redirects,
        "prompt.large": contract.launch.accepts(LARGE_PROMPT),
        "interactive.artifacts-written": contract.artifacts,
        "interactive.writes-only-artifacts": contract.artifacts,
        "turn.ends-once": contract.ongoing_calls,
        "model.takes-effect": contract.launch.model,
        "instructions.reach": file and file.left_out.keys() != {*Mode},
        "output.any-settings": contract.output_settings,
        "sandbox.command-runs": any(sandbox.call for sandbox in contract.command_sandboxes),
        "question.is-told": contract.question_calls,
        "stdin.open": argument and not contract.guards.proof,
    }
    yield from (clause for clause, by in described.items() if not by)


@dataclass(frozen=True, slots=True)
class RecordedTurns:
    """A recorded turn and the contract of its release."""

    contract: EngineContract
    turn: Turn

    @property
    def name(self) -> str:
        """The recording's name, `engine/version/case/step`, which those of other output modes share."""
        return f"{self.contract.engine}/{self.contract.version}/{self.turn.name}"


@cache
def _recorded() -> tuple[RecordedTurns, ...]:
    return tuple(_read())


def _read() -> Iterator[RecordedTurns]:
    root = recorded_releases.CHECKOUT
    for engine in simulation_files():
        folders = (root / engine).iterdir() if (root / engine).is_dir() else ()
        for version in sorted(folder.name for folder in folders if Version.is_valid(folder.name)):
            contract = load.contract(engine).at(version)
            for mode in (contract, *(contract.in_output(mode.name) for mode in contract.outputs)):
                yield from (RecordedTurns(mode, turn) for turn in replay.replay(mode).turns.values())


def _described() -> list[RecordedTurns]:
    return [turn for turn in _recorded() if not turn.name.startswith(tuple(EXCUSED))]


@pytest.mark.long
@pytest.mark.nightly
@pytest.mark.parametrize("engine", simulation_files())
def test_a_simulated_turn_has_the_shape_of_the_recorded_one(
    subtests: pytest.Subtests, engine: str, tmp_path: Path
) -> None:
    """A simulated turn has the recorded framing, kinds of records, places of id, end and answer, and way of ending."""
    for i, recorded in enumerate(turn for turn in _described() if turn.contract.engine == engine):
        with subtests.test(recorded=recorded.name):
            simulated, real = _both_shapes(recorded, tmp_path / str(i))
            assert simulated == real


@pytest.mark.long
@pytest.mark.nightly
@pytest.mark.parametrize("excused, why", EXCUSED.items())
def test_every_excuse_is_needed(excused: str, why: str, tmp_path: Path) -> None:
    """Each turn excluded above is recorded and differs from its simulation; an unnecessary exclusion must go."""
    shapes = [
        _both_shapes(recorded, tmp_path / str(i))
        for i, recorded in enumerate(_recorded())
        if recorded.name.startswith(excused)
    ]
    assert any(simulated != real for simulated, real in shapes), f"no excuse is needed: {why}"


@pytest.mark.long
def test_there_are_recordings() -> None:
    """Every simulated engine with recordings is tested above."""
    recorded = {folder.parent.name for folder in recorded_releases.CHECKOUT.glob("*/*")}
    assert {turn.contract.engine for turn in _described()} == recorded & {*simulation_files()} != set()


@pytest.mark.long
def test_signals_end_it_with_the_recorded_exit_code() -> None:
    """A signal ends the simulation with the recorded exit code, or doesn't end it, as recorded."""
    for recorded in _described():
        described, turn = simulation(recorded.contract), recorded.turn
        if turn.signal is None:
            continue
        number = Signals[turn.signal]
        ends_with = turn.exit_code if turn.ended is Ended.EXIT else None
        assert described.signals.get(number.name, -number) == ends_with, recorded.name


def _both_shapes(recorded: RecordedTurns, root: Path) -> tuple[dict[str, object], dict[str, object]]:
    """Return the shapes of the simulated and of the recorded turn."""
    contract, turn = recorded.contract, recorded.turn
    played, resumed = _simulate(recorded, root)
    reading = played.reading(contract, turn.mode, resumed)
    simulated = _shape(contract, reading, played.stdout, played.stderr, played.exit_code)
    return simulated, _shape(contract, turn.reading, turn.stdout, turn.stderr, _exit_code(turn))


def _shape(
    contract: EngineContract, reading: TurnReading, stdout: bytes, stderr: bytes, exit_code: int | None
) -> dict[str, object]:
    """Return all compared properties of a turn."""
    return {
        "ended": "hung" if exit_code is None else "well" if exit_code == 0 else "badly",
        "framing kept": not reading.framing,
        "kinds": {
            stream: _kinds(contract, stream, data) for stream, data in zip(STREAMS, (stdout, stderr), strict=True)
        },
        "id stands": sorted({(observed.stream, min(observed.index, 1)) for observed in reading.handle.occurrences}),
        "id problem": reading.handle.problem,
        "end seen": reading.ended,
        "answer": reading.final_text is not None and bool(reading.final_text.strip()),
        "failure told": bool(reading.failures),
        "outcome": reading.result.outcome,
    }


def _kinds(contract: EngineContract, stream: Stream, data: bytes) -> list[str]:
    """Name the kinds of records in order, without repetitions."""
    framing = framer(contract.stream(stream))
    records = [*framing.feed(data), *framing.finish()]
    field = contract.events.field
    kinds = [str(value_at(r, field)) for r in records] if field else [str(key) for r in records for key in r]
    return [kind for kind, _ in groupby(kinds)]


def _exit_code(turn: Turn) -> int | None:
    """Return the exit code of a turn, or None unless it exited without a signal or a timeout."""
    return turn.exit_code if turn.ended is Ended.EXIT and turn.signal is None else None


def _simulate(recorded: RecordedTurns, root: Path) -> tuple[CallResult, str | None]:
    """Run the recorded turn after the steps before it that matter; return its result and the id that it resumes."""
    contract, turn = recorded.contract, recorded.turn
    machine = SimulatedMachine(root)
    resumed = None if turn.resumed is None else _before(contract, turn, machine)
    arguments = [token.replace(turn.resumed, resumed) if resumed and turn.resumed else token for token in turn.argv[1:]]
    arguments = [token.replace("<sandbox>", str(root)) for token in arguments]
    (root / "work").mkdir(parents=True, exist_ok=True)
    machine.answers = _answers(turn)
    stdin: bytes | Unclosed = Unclosed() if turn.stdin == "open" else b""
    return machine.call(contract, arguments, turn.prompt.encode() if turn.stdin == "prompt" else stdin), resumed


def _before(contract: EngineContract, turn: Turn, machine: SimulatedMachine) -> str:
    """Run the case up to a resumed turn, and return the id that it resumes."""
    case, _, step = turn.name.partition("/")
    handle = machine.start(contract).session(contract)
    if case == "later-minute":
        machine.now += MINUTE
    if step == "a-third":
        machine.resume(contract, handle)
        machine.start(contract)
    if step == "elsewhere":
        machine.work = "elsewhere"
    return str(turn.resumed) if turn.resumed in {contract.handle.nonexistent_id, MALFORMED} else handle


def _stop(name: str) -> NoReturn:
    raise Stopped(name)


# how a turn without an answer ends; a probe ends one at its deadline by SIGTERM
_HANGING: Mapping[str, Callable[[], NoReturn]] = {
    "interrupted": partial(_stop, "SIGINT"),
    "backend-hang": partial(_stop, "SIGTERM"),
    "killed": hang,
}


def _answers(turn: Turn) -> Iterable[Answer | Callable[[], NoReturn]]:
    """Return the replies of the case's model backend."""
    case = turn.name.partition("/")[0]
    kind = case.removeprefix("backend-")
    if case in _HANGING:
        return [_HANGING[case]]
    if case != kind:
        return repeat(Failed(kind, "refused as scripted", int(kind) if kind.isdigit() else 1))
    called = Called("touch", "call_1", {"role": "assistant", "content": None})
    return [*([called] if case == "tool-call" else []), turn.scripted]
