"""Runs many scenarios with many engines, several at a time, and makes the report."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from turngate import EngineContract
from turngate_probes.conform.baseline import ExpectedBreach, stale
from turngate_probes.conform.catalogue import in_process, obstacle
from turngate_probes.conform.judge import Breach, Evidence, breaches, last_words
from turngate_probes.conform.real import obstacle as real_obstacle
from turngate_probes.conform.report import (
    BreachRow,
    ConformReport,
    Mode,
    Result,
    ScenarioRow,
    call_row,
    exit_code,
    severity_of,
    verdict,
)
from turngate_probes.conform.run import MAX_VARIABLE, play, variable_of
from turngate_probes.conform.structs import Scenario
from turngate_probes.harness.interrupt import CaseStoppedError, Interrupt

LAST = 3  # the turn that the reply in TURNGATE_REPLY_2 starts
PATIENCE = 5  # times the deadline, where the machine was too slow for it
NO_CALL = "COMMAND never started the engine's executable; if your SDK brings its own, point it to ${variable}"
ONE_PROCESS = "COMMAND started one process for several turns; the engine plays this in processes for one turn only"
NO_THIRD_TURN = "COMMAND did not send TURNGATE_REPLY_2"
TOO_LONG = (
    "COMMAND never started the engine; a prompt of 200 KB fits neither a variable nor an argument, so read "
    "TURNGATE_PROMPT_FILE and pass it on standard input"
)


class Session(Struct, frozen=True):
    """What to run, and how: `told` gets each result when it is known."""

    command: tuple[str, ...]
    contracts: tuple[EngineContract, ...]
    scenarios: tuple[Scenario, ...]
    folder: Path
    jobs: int
    expected: tuple[ExpectedBreach, ...] = ()
    strict: bool = False
    real: Mapping[str, Path] = {}

    @property
    def mode(self) -> Mode:
        """Whether the engines are real; `real` has their executables."""
        return "real" if self.real else "simulated"

    def run(self, interrupt: Interrupt, told: Callable[[ScenarioRow], None]) -> ConformReport:
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
            told(row)
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
        if why := obstacle(scenario, contract) or (real and real_obstacle(scenario)):
            return ScenarioRow(contract.engine, version, scenario.id, Result.SKIPPED, why, 0.0, (), (), ())
        folder = self.folder / f"{contract.engine}-{version}" / scenario.id
        began = time.monotonic()
        with interrupt.covering() as stop:
            seen = play(scenario, contract, self.command, folder / "1", stop, real=real)
            if _too_soon(seen):
                patient = replace(scenario, deadline=scenario.deadline * PATIENCE)
                seen = play(patient, contract, self.command, folder / "2", stop, real=real)
        if interrupt.is_set():
            raise CaseStoppedError("interrupted")
        missing = _unanswered(seen, contract)
        listed = [] if missing else breaches(seen)
        rows = [self._breach(contract, scenario, breach, used) for breach in listed]
        result, detail = missing or (_result(rows), "")
        return ScenarioRow(
            contract.engine, version, scenario.id, result, detail,
            time.monotonic() - began, tuple(ran.exit_code for ran in seen.ran), tuple(rows),
            tuple(map(call_row, seen.calls)),
        )  # fmt: skip

    def _breach(
        self, contract: EngineContract, scenario: Scenario, breach: Breach, used: list[ExpectedBreach]
    ) -> BreachRow:
        excuses = [
            entry for entry in self.expected
            if entry.covers(contract.engine, contract.version or "", scenario.id, breach)
        ]  # fmt: skip
        used.extend(excuses)
        reason = excuses[0].reason if excuses else None
        return BreachRow(breach.rule, severity_of(breach.rule), breach.detail, breach.call, reason)


def report(
    command: tuple[str, ...], mode: Mode, rows: Sequence[ScenarioRow], started: datetime, began: float,
    unused: tuple[str, ...], interrupt: Interrupt, *, strict: bool,
) -> ConformReport:  # fmt: skip
    """Return the report on these results."""
    found = verdict(rows)
    code = exit_code(found, strict=strict, stale=unused, interrupted=interrupt.is_set())
    return ConformReport(
        turngate=metadata.version("turngate"), mode=mode, command=command,
        started_at=started.isoformat(timespec="seconds"),
        seconds=time.monotonic() - began, interrupted=interrupt.is_set(), verdict=found, exit_code=code, stale=unused,
        results=tuple(rows),
    )  # fmt: skip


def _unanswered(seen: Evidence, contract: EngineContract) -> tuple[Result, str] | None:
    """Return why a run says nothing about its scenario; None: it says something."""
    turns = [call for call in seen.calls if call.started.kind != "query"]
    if not turns:
        said = TOO_LONG if len(seen.ran[0].conversation.prompts[0]) > MAX_VARIABLE else NO_CALL
        failed = next((f" ({last_words(ran)})" for ran in seen.ran if ran.exit_code), "")
        return Result.UNANSWERED, said.format(variable=variable_of(contract.engine)) + failed
    good = all(call.ended and not call.ended.exit_code for call in turns)
    wanted = "third_turn" in seen.scenario.needs and seen.scenario.expect == "success"
    if wanted and good and len(turns) == LAST - 1:
        return Result.SKIPPED, NO_THIRD_TURN
    if any(call.started.kind == "process" for call in turns) and not in_process(seen.scenario):
        return Result.SKIPPED, ONE_PROCESS
    return None


def _too_soon(seen: Evidence) -> bool:
    """Whether a slow machine used up the deadline before the turn that misbehaves."""
    wanted = min((play.turn or 1 for play in seen.scenario.plays), default=1)
    turns = sum(call.started.kind != "query" for call in seen.calls)
    # a process for several turns is one call
    reached = any(ran.conversation.prompts[wanted - 1] in (call.text or "") for ran in seen.ran for call in seen.calls)
    return turns < wanted and not reached and any(ran.seconds >= seen.scenario.deadline for ran in seen.ran)


def _result(rows: Iterable[BreachRow]) -> Result:
    excuses = [row.excused for row in rows]
    if None in excuses:
        return Result.FAIL
    return Result.EXCUSED if excuses else Result.PASS
