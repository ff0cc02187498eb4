"""The report of `turngate conform`: each scenario with each engine, the verdict, and the breaches of a baseline."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import replace

from turngate.contract.clauses import Severity
from turngate.contract.verdict import Count, Seconds, Text
from turngate.contract.versions import Range
from turngate_probes.conform.calls import EngineCall
from turngate_probes.conform.catalogue import rules, scenarios
from turngate_probes.conform.judge import Breach
from turngate_probes.report.baseline import ExpectedBreach, read

Mode: TypeAlias = Literal["simulated", "real", "observed"]
MAX_ARGUMENT = 200
INTERRUPTED = 130


class ScenarioResult(StrEnum):
    """The result of a scenario.

    pass: The orchestrator did what it must. fail: It broke a rule. excused: It broke only rules that the baseline
    expects. unanswered: It never called the engine, or the scenario did not end. skipped: This engine or this driver
    can't play the scenario.
    """

    PASS = "pass"
    FAIL = "fail"
    EXCUSED = "excused"
    UNANSWERED = "unanswered"
    SKIPPED = "skipped"


class Conformance(StrEnum):
    """The verdict on an orchestrator, best first.

    conforms: It broke no rule, or only those that the baseline expects. degraded: It broke rules that aren't essential.
    unanswered: A scenario has no answer. broken: It broke an essential ("breaking") rule.
    """

    CONFORMS = "conforms"
    DEGRADED = "degraded"
    UNANSWERED = "unanswered"
    BROKEN = "broken"


class CallRow(Struct, frozen=True, forbid_unknown_fields=True):
    """One call of the engine. `argv` follows the executable; long arguments are cut. `stderr` is its last line."""

    number: Annotated[int, Meta(ge=1)]
    kind: Text
    argv: tuple[str, ...]
    cwd: Text
    stdin: Text
    stdin_closed: bool
    resumed: str | None
    session: str | None
    exit_code: int | None
    signals: tuple[Text, ...]
    stderr: str


class BreachRow(Struct, frozen=True, forbid_unknown_fields=True):
    """A broken rule: what shows it, in which call (0: in none), and why the baseline excuses it (null: it doesn't)."""

    rule: Text
    severity: Severity
    detail: Text
    call: Count
    excused: str | None


class ScenarioRow(Struct, frozen=True, forbid_unknown_fields=True):
    """The result of a scenario; `detail` says why there is none, or which run it shows unless the first."""

    engine: Text
    version: Text
    scenario: Text
    result: ScenarioResult
    detail: str
    seconds: Seconds
    exit_codes: tuple[int | None, ...]
    breaches: tuple[BreachRow, ...]
    calls: tuple[CallRow, ...]

    @property
    def subject(self) -> str:
        """The engine and its version."""
        return f"{self.engine} {self.version}"

    @property
    def is_breaking(self) -> bool:
        """Whether it breaks an essential rule that the baseline does not excuse."""
        return any(breach.severity is Severity.BREAKING and breach.excused is None for breach in self.breaches)


class ConformReport(
    Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="schema", tag="turngate.conform-report/1"
):
    """The results of an orchestrator.

    turngate: The version of turngate.
    command: The driver.
    stale: Entries of the baseline that no longer excuse anything.
    notes: What else one must know to read the results.
    """

    turngate: Text
    mode: Mode
    command: tuple[str, ...]
    started_at: Text
    seconds: Seconds
    interrupted: bool
    verdict: Conformance
    exit_code: int
    stale: tuple[Text, ...]
    results: tuple[ScenarioRow, ...]
    notes: tuple[Text, ...] = ()


def call_row(call: EngineCall) -> CallRow:
    """Return what a report shows of a call."""
    started = call.started
    cut = tuple(word if len(word) <= MAX_ARGUMENT else f"{word[:MAX_ARGUMENT]}…" for word in started.argv)
    return CallRow(
        call.number,
        started.kind,
        cut,
        started.cwd,
        started.stdin,
        call.stdin_closed,
        started.resumed,
        call.handle,
        call.ended.exit_code if call.ended else None,
        call.signals,
        call.last_line,
    )


def judged(row: ScenarioRow, breaches: Iterable[Breach], expected: Sequence[ExpectedBreach] = ()) -> ScenarioRow:
    """Return a row with its breaches, those excused that a baseline expects, and with the result that follows."""
    listed = tuple(_breach_row(row, breach, expected) for breach in breaches)
    reasons = [breach.excused for breach in listed]
    bad = ScenarioResult.FAIL if None in reasons else ScenarioResult.EXCUSED
    return replace(row, result=bad if listed else ScenarioResult.PASS, breaches=listed)


def verdict(rows: Iterable[ScenarioRow]) -> Conformance:
    """Return the worst verdict that the results allow."""
    listed = list(rows)
    failed = [breach for row in listed if row.result is ScenarioResult.FAIL for breach in row.breaches]
    broken = {breach.severity for breach in failed if breach.excused is None}
    if Severity.BREAKING in broken:
        return Conformance.BROKEN
    if any(row.result is ScenarioResult.UNANSWERED for row in listed) or all(
        row.result is ScenarioResult.SKIPPED for row in listed
    ):
        return Conformance.UNANSWERED
    return Conformance.DEGRADED if broken else Conformance.CONFORMS


def exit_code(found: Conformance, *, strict: bool, stale: Sequence[str], interrupted: bool) -> int:
    """Return the exit code: 0 conforms, 1 a rule is broken, 2 unanswered, 130 interrupted."""
    if interrupted:
        return INTERRUPTED
    if found is Conformance.BROKEN or (strict and (found is Conformance.DEGRADED or stale)):
        return 1
    return 2 if found is Conformance.UNANSWERED else 0


def expected_breaches(path: Path) -> tuple[ExpectedBreach, ...]:
    """Read a baseline; ContractError if it is wrong, MachineError if it can't be read."""
    known: dict[str, Collection[str]] = {"rule": rules(), "scenario": scenarios()}
    return tuple(entry for entry, _ in read(path, ExpectedBreach, known, "see turngate conform --list"))


def excuses(entry: ExpectedBreach, engine: str, version: str, scenario: str, rule: str) -> bool:
    """Return whether an entry of a baseline excuses a breach."""
    here = entry.scenario in (None, scenario) and entry.rule == rule
    return here and _names(entry, engine, version)


def stale(entries: Sequence[ExpectedBreach], rows: Sequence[ScenarioRow]) -> tuple[str, ...]:
    """Return the names of the entries that excuse nothing, although what they name was played.

    An entry without a scenario is about every scenario, so it is stale only if each of them has a result.
    """
    broken = [(row.engine, row.version, row.scenario, breach.rule) for row in rows for breach in row.breaches]
    needless = (entry for entry in entries if not any(excuses(entry, *one) for one in broken))
    return tuple(entry.name for entry in needless if _is_played(entry, rows))


def report(
    command: tuple[str, ...],
    mode: Mode,
    rows: Sequence[ScenarioRow],
    started: datetime,
    seconds: float,
    unused: tuple[str, ...] = (),
    *,
    strict: bool,
    interrupted: bool,
) -> ConformReport:
    """Return the report on these results, whose runs `started` then and took so many seconds."""
    found = verdict(rows)
    return ConformReport(
        turngate=metadata.version("turngate"),
        mode=mode,
        command=command,
        started_at=started.isoformat(timespec="seconds"),
        seconds=seconds,
        interrupted=interrupted,
        verdict=found,
        exit_code=exit_code(found, strict=strict, stale=unused, interrupted=interrupted),
        stale=unused,
        results=tuple(rows),
    )


def _is_played(entry: ExpectedBreach, rows: Iterable[ScenarioRow]) -> bool:
    left = {ScenarioResult.UNANSWERED, *([ScenarioResult.SKIPPED] if entry.scenario else [])}
    played = {row.scenario for row in rows if row.result not in left and _names(entry, row.engine, row.version)}
    return played >= ({entry.scenario} if entry.scenario else scenarios().keys())


def _breach_row(row: ScenarioRow, breach: Breach, expected: Sequence[ExpectedBreach]) -> BreachRow:
    fitting = (entry for entry in expected if excuses(entry, row.engine, row.version, row.scenario, breach.rule))
    reason = next((entry.reason for entry in fitting), None)
    return BreachRow(breach.rule, rules()[breach.rule].severity, breach.detail, breach.call, reason)


def _names(entry: ExpectedBreach, engine: str, version: str) -> bool:
    """Whether an entry is about an engine's release."""
    return entry.engine in (None, engine) and Range(entry.since, entry.until).covers(version)
