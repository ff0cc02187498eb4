"""The fake engine as an executable, and a way to run single cases on it or on a real engine."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from tests.fakes.executables import headless
from turngate.contract import load
from turngate.contract.clauses import Result
from turngate.contract.engine_contract import EngineContract
from turngate.contract.verdict import ClauseResult
from turngate_probes.clauses import CHECKS, judge_all
from turngate_probes.harness.cases import CASES, Case
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.harness.observations import CaseEnd, Observation, Observations
from turngate_probes.harness.runner import CaseRunner
from turngate_probes.harness.sandbox import Sandbox
from turngate_probes.releases.pins import pinned_version
from turngate_probes.releases.source import ReleaseSource
from turngate_probes.releases.target import Target


def pinned_release(engine: str) -> tuple[EngineContract, Path]:
    """Return the contract and the executable of an engine's pinned release, from the cache or from npm."""
    with ReleaseSource().held(Target(engine, pinned_version(engine)), print) as release:
        assert release.executable
        return release.contract, release.executable


def install(folder: Path, *faults: str) -> Path:
    """Install the fake engine as `codex` in `folder`, with these faults next to it."""
    executable = headless(folder / "codex")
    (folder / "faults").write_text(" ".join(faults))
    return executable


def unlimited() -> AbstractContextManager[Callable[[], None]]:
    """Return a slot for a driver whose engines nothing limits."""
    return nullcontext(lambda: None)


def named(name: str) -> list[Case]:
    """Return the case of this name."""
    return [case for case in CASES if case.name == name]


class Spectator:
    """Collects observations as a probe does, and can judge them."""

    def __init__(self, contract: EngineContract) -> None:
        self.observed = Observations(contract, hosts=set())
        self.done: set[str] = set()
        self.kept: dict[str, Path] = {}
        self._lock = threading.Lock()

    def saw(self, item: Observation, box: Sandbox) -> None:
        """Add an observation."""
        with self._lock:
            self.kept[item.name] = box.root
            self.observed.saw(item)

    def ended(self, end: CaseEnd) -> None:
        """Add the end of a case."""
        with self._lock:
            self.done.add(end.case)
            self.observed.ended(end)

    def judged(self, *more: str) -> dict[str, ClauseResult]:
        """Judge every clause whose cases were run; the cases in `more` count as run too."""
        results: dict[str, ClauseResult] = {}
        levels, done = ("static", "hermetic", "server"), self.done | set(more)
        asked = (clause.id for clause in load.catalogue().at_level(*levels))
        judge_all(
            self.observed, results, levels, done, frozenset(name for name in asked if done >= set(CHECKS[name].cases))
        )
        return results


def play(
    executable: Path,
    folder: Path,
    *cases: str | Case,
    interrupt: Interrupt | None = None,
    contract: EngineContract | None = None,
) -> Spectator:
    """Run cases, given by name or object, with a contract (by default codex's), in sandboxes below `folder`."""
    spectator = Spectator(contract or load.contract("codex").at("0.169.0"))
    chosen = [case for entry in cases for case in (named(entry) if isinstance(entry, str) else [entry])]
    stage = CaseRunner.of(folder / "sandboxes", 2, interrupt or Interrupt())
    stage.play(spectator.observed.contract, executable, chosen, spectator)
    return spectator


def failing(results: dict[str, ClauseResult]) -> set[str]:
    """Return the clauses that failed."""
    return {name for name, result in results.items() if result.result is Result.FAIL}
