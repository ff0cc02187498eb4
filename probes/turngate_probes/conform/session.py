"""Runs scenarios with engines, several at a time, and makes the report."""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from turngate import EngineContract, Stop
from turngate_probes.conform.answered import (
    came_too_soon,
    ended_early,
    has_not_read,
    is_long,
    may_have_canceled,
    still_read,
    too_long,
    turns_of,
    unanswered,
)
from turngate_probes.conform.catalogue import (
    BASIS,
    MOST_TURNS,
    NOT_REACHED,
    PROMPT,
    Scenario,
    for_driver,
    in_process,
    obstacle,
    rules,
    scenarios,
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
    stale,
    verdict,
)
from turngate_probes.conform.judge import Breach, Evidence, breaches
from turngate_probes.conform.real import obstacle as real_obstacle
from turngate_probes.conform.run import play
from turngate_probes.harness.interrupt import CaseStoppedError, Interrupt
from turngate_probes.report.baseline import ExpectedBreach

PATIENCE = 5  # times the deadline or the grace, where the machine was too slow for it
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
        """Run everything; an interrupt ends what runs, and the rest is left out."""
        started, began = datetime.now(UTC), time.monotonic()
        asked = [(contract, scenario) for contract in self.contracts for scenario in self.scenarios]
        if self.jobs > 1:  # the longest first, so that none is left alone at the end
            asked.sort(key=lambda pair: -pair[1].seconds)
        used: list[ExpectedBreach] = []
        environ = dict(os.environ)  # once, since others may change it while the scenarios run

        failed = set[tuple[str, str | None]]()

        def one(pair: tuple[EngineContract, Scenario]) -> ScenarioRow | None:
            contract, scenario = pair
            subject = contract.engine, contract.version
            try:
                row = self._row(contract, scenario, interrupt, used, environ, reached=subject not in failed)
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
        rows = [
            done[key]
            for contract in self.contracts
            for scenario in self.scenarios
            if (key := (contract.engine, contract.version or "", scenario.id)) in done
        ]
        unused = () if failed else stale(self.expected, used)
        return report(self.command, self.mode, rows, started, began, unused, interrupt, strict=self.strict)

    def _row(
        self,
        contract: EngineContract,
        scenario: Scenario,
        interrupt: Interrupt,
        used: list[ExpectedBreach],
        environ: Mapping[str, str],
        *,
        reached: bool,
    ) -> ScenarioRow:
        version = contract.version or ""
        real = self.real.get(contract.engine)
        fitting = for_driver(scenario, self.turns)
        # the output that COMMAND asks for, and whether it starts a process for several turns, is known when it has run
        modes = (contract, *(contract.in_output(mode.name) for mode in contract.outputs))
        obstacles = [obstacle(scenario, mode) for mode in modes]
        free = contract.sticky.transport != "none" and in_process(scenario, contract.sticky.transport)
        why = (obstacles[0] if all(obstacles) and not free else None) or (real_obstacle(scenario) if real else None)
        why = why or (FEWER_TURNS.format(turns=self.turns) if fitting is None else "" if reached else NOT_REACHED)
        if fitting is None or why:
            return ScenarioRow(contract.engine, version, scenario.id, ScenarioResult.SKIPPED, why, 0.0, (), (), ())
        scenario = fitting
        folder = self.folder / f"{contract.engine}-{version}" / scenario.id
        began = time.monotonic()
        with interrupt.scope() as stop:
            evidence = self._play(scenario, contract, folder / "1", stop, environ)
            too_soon = came_too_soon(evidence) or may_have_canceled(evidence) or still_read(evidence)
            if too_soon or ended_early(evidence):
                deadline = scenario.deadline * (PATIENCE if too_soon else 1)
                patient = replace(scenario, deadline=deadline, grace=scenario.grace * PATIENCE)
                evidence = self._play(patient, contract, folder / "2", stop, environ)
            missing = unanswered(evidence, contract)
            listed = [] if missing else breaches(evidence)
            if is_long(evidence) and not turns_of(evidence) and not has_not_read(evidence):
                short = replace(scenario, prompt=PROMPT)
                if turns_of(self._play(short, contract, folder / "short", stop, environ)):
                    missing, listed = None, [Breach("orchestrator.text-whole", too_long(evidence))]
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

    def _play(
        self, scenario: Scenario, contract: EngineContract, folder: Path, stop: Stop, environ: Mapping[str, str]
    ) -> Evidence:
        real = self.real.get(contract.engine)
        evidence = play(scenario, contract, self.command, folder, stop, environ, real=real, git=self.git)
        return replace(evidence, interactive=not self.autonomous)

    def _breach(
        self, contract: EngineContract, scenario: Scenario, breach: Breach, used: list[ExpectedBreach]
    ) -> BreachRow:
        engine, version = contract.engine, contract.version or ""
        fitting = [entry for entry in self.expected if excuses(entry, engine, version, scenario.id, breach.rule)]
        used.extend(fitting)
        reason = fitting[0].reason if fitting else None
        return BreachRow(breach.rule, rules()[breach.rule].severity, breach.detail, breach.call, reason)


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


def _fails(row: ScenarioRow) -> bool:
    """Whether the conversation itself failed or proved nothing: other scenarios would show the same cause again."""
    causes = {scenarios()[BASIS].rule, "orchestrator.arguments"}
    unanswered = row.result is ScenarioResult.UNANSWERED
    return unanswered or any(breach.rule in causes and breach.excused is None for breach in row.breaches)


def _result(rows: Iterable[BreachRow]) -> ScenarioResult:
    reasons = [row.excused for row in rows]
    if None in reasons:
        return ScenarioResult.FAIL
    return ScenarioResult.EXCUSED if reasons else ScenarioResult.PASS
