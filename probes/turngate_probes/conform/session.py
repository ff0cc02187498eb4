"""Runs scenarios with engines, several at a time: first the conversation without a fault, which all others need."""

import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from turngate import EngineContract
from turngate_probes.conform.catalogue import BASIS, MOST_TURNS, NOT_REACHED, Scenario, for_driver, scenarios
from turngate_probes.conform.conform_report import (
    ConformReport,
    Mode,
    ScenarioResult,
    ScenarioRow,
    call_row,
    judged,
    report,
    stale,
)
from turngate_probes.conform.judge import Evidence
from turngate_probes.conform.outcome import not_played, outcome
from turngate_probes.conform.run import play
from turngate_probes.harness.interrupt import CaseStoppedError, Interrupt
from turngate_probes.report.baseline import ExpectedBreach

FEWER_TURNS = "it needs more turns than --turns {turns}"


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
        """Run everything; an interrupt ends what runs, and the rest is unanswered."""
        started, began = datetime.now(UTC), time.monotonic()
        asked = [(contract, scenario) for contract in self.contracts for scenario in self.scenarios]
        if self.jobs > 1:  # the longest first, so that none is left alone at the end
            asked.sort(key=lambda pair: -pair[1].seconds)
        environ = dict(os.environ)  # once, since others may change it while the scenarios run
        failed = set[tuple[str, str | None]]()

        def one(pair: tuple[EngineContract, Scenario]) -> ScenarioRow | None:
            contract, scenario = pair
            subject = contract.engine, contract.version
            try:
                row = self._row(contract, scenario, interrupt, environ, reached=subject not in failed)
            except CaseStoppedError:
                return None
            if scenario.id == BASIS and _fails(row):
                failed.add(subject)
            reported(row)
            return row

        phases = [[pair for pair in asked if (pair[1].id == BASIS) is basis] for basis in (True, False)]
        with ThreadPoolExecutor(self.jobs) as pool:
            ran = [row for phase in phases for row in pool.map(one, phase) if row]
        done = {(row.engine, row.version, row.scenario): row for row in ran}
        left = [_unplayed(contract, scenario) for contract in self.contracts for scenario in self.scenarios]
        rows = [done.get((row.engine, row.version, row.scenario), row) for row in left]
        unused, seconds = () if failed else stale(self.expected, rows), time.monotonic() - began
        interrupted = interrupt.is_set()
        return report(
            self.command, self.mode, rows, started, seconds, unused, strict=self.strict, interrupted=interrupted
        )

    def _row(
        self,
        contract: EngineContract,
        scenario: Scenario,
        interrupt: Interrupt,
        environ: Mapping[str, str],
        *,
        reached: bool,
    ) -> ScenarioRow:
        row, real = _unplayed(contract, scenario), self.real.get(contract.engine)
        fitting = for_driver(scenario, self.turns)
        why = not_played(scenario, contract, real=real is not None)
        why = why or (FEWER_TURNS.format(turns=self.turns) if fitting is None else "" if reached else NOT_REACHED)
        if fitting is None or why:
            return replace(row, result=ScenarioResult.SKIPPED, detail=why)
        began = time.monotonic()
        with interrupt.scope() as stop:

            def attempt(changed: Scenario, name: str) -> Evidence:
                folder = self.folder / f"{row.engine}-{row.version}" / scenario.id / name
                evidence = play(changed, contract, self.command, folder, stop, environ, real=real, git=self.git)
                return replace(evidence, interactive=not self.autonomous)

            shown = outcome(fitting, contract, attempt)
        if interrupt.is_set():
            raise CaseStoppedError("interrupted")
        row = replace(
            row,
            detail=shown.again,
            seconds=time.monotonic() - began,
            exit_codes=tuple(ran.exit_code for ran in shown.evidence.ran),
            calls=tuple(map(call_row, shown.evidence.calls)),
        )
        if shown.missing:
            result, detail = shown.missing
            return replace(row, result=result, detail="; ".join(filter(None, (detail, shown.again))))
        return judged(row, shown.breaches, self.expected)


def _unplayed(contract: EngineContract, scenario: Scenario) -> ScenarioRow:
    """Return the result of a scenario that an interrupt ended, or that was not reached before it."""
    result, detail = ScenarioResult.UNANSWERED, "interrupted"
    return ScenarioRow(contract.engine, contract.version or "", scenario.id, result, detail, 0.0, (), (), ())


def _fails(row: ScenarioRow) -> bool:
    """Whether the conversation itself failed or proved nothing: other scenarios would show the same cause again."""
    causes = {scenarios()[BASIS].rule, "orchestrator.arguments"}
    unanswered = row.result is ScenarioResult.UNANSWERED
    return unanswered or any(breach.rule in causes and breach.excused is None for breach in row.breaches)
