"""Shows the results of `turngate conform`: each as it comes, and all of them in the terms of every report format."""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from threading import Lock

from msgspec.structs import replace
from rich.text import Text

from turngate.contract.clauses import Severity
from turngate.sanitize import bounded, visible
from turngate_probes.conform.catalogue import BASIS, NOT_REACHED, rules, scenarios
from turngate_probes.conform.conform_report import (
    BreachRow,
    CallRow,
    Conformance,
    ConformReport,
    ScenarioResult,
    ScenarioRow,
    verdict,
)
from turngate_probes.report.lines import Detail, Line, print_line
from turngate_probes.report.progress import HEARTBEAT, Clock
from turngate_probes.report.publish import Printer
from turngate_probes.report.view import (
    Block,
    Column,
    Count,
    Fact,
    JudgedCase,
    Judgement,
    Mark,
    Row,
    RowFamily,
    Sign,
    Suite,
    View,
)
from turngate_probes.report.wording import duration

LONGEST = 240
FEW = 10  # scenarios that nobody waits long for
MEANINGS = {
    0: "the orchestrator conforms",
    1: "the orchestrator breaks a rule",
    2: "something could not be tested",
    130: "interrupted, so the results are incomplete",
}
MARKS = {
    ScenarioResult.PASS: Mark("pass", "pass", "pass", "the orchestrator did what it must"),
    ScenarioResult.FAIL: Mark("fail", "fail", "fail", "it broke a rule"),
    ScenarioResult.EXCUSED: Mark("excused", "excused", "excused", "it broke only rules that the baseline expects"),
    ScenarioResult.UNANSWERED: Mark(
        "unanswered", "not_run", "unanswered", "nothing is proved: it never started the engine"
    ),
    ScenarioResult.SKIPPED: Mark(
        "skipped", "unsupported", "skipped", "not reached, or this engine or this driver can't play it"
    ),
}
JUDGEMENTS: dict[ScenarioResult, Judgement] = {
    ScenarioResult.PASS: "passed",
    ScenarioResult.FAIL: "failed",
    ScenarioResult.EXCUSED: "noted",
    ScenarioResult.UNANSWERED: "open",
    ScenarioResult.SKIPPED: "skipped",
}
SIGNS: dict[Conformance, Sign] = {
    Conformance.CONFORMS: "pass",
    Conformance.DEGRADED: "deviates",
    Conformance.UNANSWERED: "not_run",
    Conformance.BROKEN: "fail",
}
EXPECTED = {
    "success": "the driver must succeed",
    "failure": "the driver must fail",
    "either": "the driver may succeed or fail",
}
OBSERVED = "The command ran once, as it is, so only the rules that hold for every call count."
_STYLES = {
    ScenarioResult.PASS: "green",
    ScenarioResult.FAIL: "red",
    ScenarioResult.UNANSWERED: "yellow",
    ScenarioResult.EXCUSED: "yellow",
}
_QUIET = (ScenarioResult.PASS, ScenarioResult.SKIPPED)


def row_lines(row: ScenarioRow, known: Collection[BreachRow] = ()) -> Iterator[Line]:
    """Return the lines of one result: the scenario, and below it each broken rule, unless that breach is known."""
    line = Text.assemble(
        (f"{row.result:<10}", _STYLES.get(row.result, "")),
        f" {row.subject}  {row.scenario}",
        f"  {duration(row.seconds)}" if row.result is not ScenarioResult.SKIPPED else "",
    )
    if row.detail:
        line.append(f"  {visible(row.detail)}")
    new = [breach for breach in row.breaches if breach not in known]
    if old := [breach.rule for breach in row.breaches if breach in known]:
        line.append(f"  as before: {', '.join(old)}")
    yield 0, line
    if new and row.scenario in scenarios():
        yield 1, Text(f"what happens: {scenarios()[row.scenario].sentence}")
    for breach in new:
        yield 1, Text(visible(bounded(_named(breach), LONGEST)))
        yield 2, Text(visible(_reason(breach)))
    if new and (printed := next((call.stderr for call in reversed(row.calls) if call.stderr), "")):
        yield 1, Text(visible(f"the engine's last line on stderr: {printed}"))


def _named(breach: BreachRow) -> str:
    """Return the rule, the call, and what shows that it is broken."""
    where = f" (call {breach.call})" if breach.call else ""
    return f"{breach.rule}{where}: {breach.detail}"


def _reason(breach: BreachRow) -> str:
    return f"expected: {breach.excused}" if breach.excused else f"why: {rules()[breach.rule].why}"


class ConformProgress:
    """Prints each result, with its number among all of them, and how many there are after a while without one."""

    def __init__(self, output: Printer, total: int, clock: Clock = time.monotonic) -> None:
        self._output, self._total, self._done, self._lock = output, total, 0, Lock()
        self._clock, self._last = clock, clock()
        self._known, self._unreached = dict[str, set[BreachRow]](), set[str]()

    def begin(self, number: int, engines: Iterable[str], jobs: int) -> None:
        """Print what is about to run: so many scenarios with each engine."""
        if self._output.detail is not Detail.QUIET:
            alone = "; --jobs 4 is faster if your driver can run several times at once" if number > FEW else ""
            order = f", {jobs} at a time, the longest first" if jobs > 1 else alone
            line = f"{number} scenario{'s' * (number != 1)} with {', '.join(engines)}{order}"
            print_line(self._output.console, 0, Text(line, "dim"))

    def beat(self) -> float:
        """Print how many results there are if nothing came for long; return the seconds until it may be due again."""
        with self._lock:
            if (left := self._last + HEARTBEAT - self._clock()) > 0:
                return left
            if self._output.detail is not Detail.QUIET:
                self._last = self._clock()
                line = f"{self._done} of {self._total} scenarios done; one that waits can take two minutes"
                print_line(self._output.console, 0, Text(line, "dim"))
            return HEARTBEAT

    def __call__(self, row: ScenarioRow) -> None:
        """Print a result; several threads may call this."""
        with self._lock:
            self._done, self._last = self._done + 1, self._clock()
            if self._output.detail is Detail.QUIET and row.result in _QUIET:
                return
            if row.detail == NOT_REACHED:  # one line for all
                if row.subject not in self._unreached:
                    self._unreached.add(row.subject)
                    for depth, line in row_lines(replace(row, scenario="the others")):
                        print_line(self._output.console, depth, line)
                return
            known = self._known.setdefault(row.subject, set())
            for number, (depth, line) in enumerate(row_lines(row, known)):
                if not number:
                    line.append(f"  [{self._done}/{self._total}]", "dim")
                print_line(self._output.console, depth, line)
            known.update(row.breaches)


def view(report: ConformReport) -> View:
    """Return the view of a report: a row for each scenario, a column for each engine."""
    by_engine: dict[str, list[ScenarioRow]] = {}
    for row in report.results:
        by_engine.setdefault(row.subject, []).append(row)
    suites = tuple(_suite(report, name, rows) for name, rows in by_engine.items())
    return View(
        kind="conform",
        report=report,
        turngate=report.turngate,
        started_at=report.started_at,
        seconds=report.seconds,
        exit_code=report.exit_code,
        interrupted=report.interrupted,
        outcome=report.verdict,
        headline=visible(f"{' '.join(report.command)}: {report.verdict}"),
        meaning=_meaning(report),
        meta=(f"{report.mode} engines", duration(report.seconds), visible(f"turngate {report.turngate}")),
        counts=tuple(
            Count(result, sum(row.result is result for row in report.results), MARKS[result].sign)
            for result in ScenarioResult
        ),
        remarks=tuple(_remarks(report)),
        suites=suites,
        marks=tuple(MARKS.values()),
        columns=tuple(_column(number, rows) for number, rows in enumerate(by_engine.values())),
        families=_families(suites),
    )


def _meaning(report: ConformReport) -> str:
    """Return what the exit code means: that of an observed command that failed, or turngate's own."""
    failed = report.mode == "observed" and any(code for row in report.results for code in row.exit_codes)
    if failed and not report.interrupted:
        return "the exit code of the command"
    if (report.verdict, report.exit_code) == (Conformance.DEGRADED, 0):
        return "the orchestrator breaks only rules that aren't essential; with --strict, it fails"
    only_stale = (report.verdict, report.exit_code) == (Conformance.CONFORMS, 1)
    return "the baseline has entries that no breach needs" if only_stale else MEANINGS[report.exit_code]


def _remarks(report: ConformReport) -> Iterator[JudgedCase]:
    """Remark on each broken rule and on scenarios without an answer, essential ones first, then on the rest."""
    broken = [(row, breach) for row in report.results for breach in row.breaches if breach.excused is None]
    order = list(rules())
    # the conversation without faults first: what fails there may be the cause of the rest
    broken.sort(key=lambda pair: (pair[0].scenario != BASIS, order.index(pair[1].rule)))
    found = dict[tuple[str, BreachRow], list[str]]()
    for row, breach in broken:
        found.setdefault((row.subject, breach), []).append(row.scenario)
    yield from _findings(found, "failed")
    missing = dict[tuple[str, str], list[str]]()
    for row in report.results:
        if row.result is ScenarioResult.UNANSWERED:
            missing.setdefault((row.subject, row.detail), []).append(row.scenario)
    for (subject, detail), (first, *also) in missing.items():
        more = f"; also {', '.join(also)}" if also else ""
        yield JudgedCase(subject, first, "open", f"unanswered: {detail}{more}", also=tuple(also))
    yield from _findings(found, "warned")
    for entry in report.stale:
        yield JudgedCase("baseline", "", "noted", f"no breach needs this entry any more, so remove it: {entry}")
    for note in report.notes:
        yield JudgedCase("engines", "", "noted", note)


def _findings(found: Mapping[tuple[str, BreachRow], Sequence[str]], judgement: Judgement) -> Iterator[JudgedCase]:
    """Remark once on each breach, with the scenarios in which it was found."""
    for (subject, breach), names in found.items():
        if (breach.severity is Severity.BREAKING) == (judgement == "failed"):
            first, *also = names
            more = f"; also in {', '.join(also)}" if also else ""
            yield JudgedCase(
                subject,
                first,
                judgement,
                f"{_named(breach)} ({_reason(breach)}){more}",
                rule=breach.rule,
                hint=(rules()[breach.rule].sentence,),
                also=tuple(also),
            )


def _suite(report: ConformReport, name: str, rows: Sequence[ScenarioRow]) -> Suite:
    properties = {"turngate": report.turngate, "mode": report.mode, "verdict": verdict(rows)}
    times = {row.scenario: row.seconds for row in rows}
    is_strict = (report.verdict, report.exit_code) == (Conformance.DEGRADED, 1)
    return Suite(name, sum(times.values()), properties, tuple(_case(row, strict=is_strict) for row in rows), times)


def _case(row: ScenarioRow, *, strict: bool) -> JudgedCase:
    scenario = scenarios().get(row.scenario)
    reported = tuple(f"{_named(breach)} ({_reason(breach)})" for breach in row.breaches)
    detail = "; ".join(filter(None, (*map(_named, row.breaches), row.detail)))
    text, kind, hint = detail, str(row.result), tuple[str, ...]()
    if row.result is ScenarioResult.FAIL:
        worst = row.breaches[0]
        text, kind = f"call {worst.call}: {worst.detail}" if worst.call else worst.detail, worst.rule
        hint = (scenario.sentence, *reported) if scenario else reported
    judgement = JUDGEMENTS[row.result]
    if judgement == "failed" and not row.is_breaking and not strict:
        judgement = "warned"
    codes = " and ".join("none" if code is None else str(code) for code in row.exit_codes)
    return JudgedCase(
        row.subject,
        row.scenario,
        judgement,
        text,
        kind,
        hint=hint,
        state=row.result,
        detail=detail,
        context=EXPECTED[scenario.expect] if scenario else "",
        blocks=(Block("command", f"exit code {codes}"), *map(_breach, row.breaches), *map(_call, row.calls)),
    )


def _column(number: int, rows: Sequence[ScenarioRow]) -> Column:
    first, found = rows[0], verdict(rows)
    counts = ", ".join(
        f"{count} {result}" for result in ScenarioResult if (count := sum(row.result is result for row in rows))
    )
    facts = Fact("scenarios", (counts,)), Fact("time", (duration(sum(row.seconds for row in rows)),))
    return Column(number, first.engine, first.version, found, found, SIGNS[found], facts)


def _families(suites: Sequence[Suite]) -> tuple[RowFamily, ...]:
    """Return a row for each scenario that ran, by the rule that it tests."""
    ran = {case.name for suite in suites for case in suite.cases}
    by_rule: dict[str, list[str]] = {}
    for name in [*scenarios(), *sorted(ran - scenarios().keys())]:
        if name in ran:
            scenario = scenarios().get(name)
            by_rule.setdefault(scenario.rule if scenario else name, []).append(name)
    numbers = {name: number for number, name in enumerate(name for names in by_rule.values() for name in names)}
    return tuple(
        RowFamily(rule.partition(".")[2] or rule, tuple(_row(numbers[name], name, suites) for name in names))
        for rule, names in by_rule.items()
    )


def _row(number: int, name: str, suites: Iterable[Suite]) -> Row:
    scenario = scenarios().get(name)
    sentence, why, severity = OBSERVED, "", Severity.BREAKING
    if scenario:
        sentence, why, severity = scenario.sentence, scenario.why, rules()[scenario.rule].severity
    cells = tuple(next((case for case in suite.cases if case.name == name), None) for suite in suites)
    return Row(number, name, name, severity, sentence, why, cells)


def _breach(breach: BreachRow) -> Block:
    about = f"{breach.severity}, call {breach.call}" if breach.call else breach.severity
    return Block(breach.rule, about, (breach.detail, rules()[breach.rule].sentence, _reason(breach)))


def _call(call: CallRow) -> Block:
    code = "ended by a signal" if call.exit_code is None else f"exit code {call.exit_code}"
    facts = {
        "directory": call.cwd,
        "stdin": f"{call.stdin}, {'closed' if call.stdin_closed else 'left open'}",
        "resumed": call.resumed,
        "session": call.session,
        "signals": " ".join(call.signals),
        "stderr": call.stderr,
    }
    listed = tuple(Fact(name, (text,)) for name, text in facts.items() if text)
    return Block(f"call {call.number}", f"{call.kind}, {code}", argv=call.argv, facts=listed)
