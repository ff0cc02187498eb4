"""The view of a probe or a gate: what every format shows of its releases, clauses and differences."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from turngate.contract.clauses import Result
from turngate.contract.load import catalogue
from turngate.contract.verdict import ClauseResult, FailOn, Verdict
from turngate.history_text import only_guarded
from turngate.sanitize import visible
from turngate_probes.clauses import CHECKS
from turngate_probes.journal.tool_access import ModeToolAccess, ToolAccessRow, rows
from turngate_probes.report.contract_edits import ContractEdit, contract_edits
from turngate_probes.report.headline import CHANGES_REQUIRED, gate_headline, gate_meaning, meaning, probe_headline
from turngate_probes.report.judgement import EXCUSED, gate_cases, gate_remarks, probe_cases, probe_remarks
from turngate_probes.report.reports import (
    Difference,
    GateOutcome,
    GateReport,
    Impact,
    ProbeReport,
    ReleaseReport,
    known_caveats,
)
from turngate_probes.report.view import (
    CHANGE,
    Column,
    Count,
    Fact,
    JudgedCase,
    Mark,
    Row,
    RowFamily,
    Sign,
    Suite,
    View,
)
from turngate_probes.report.wording import (
    NOT_KNOWN,
    advice,
    counted,
    duration,
    from_where,
    known,
    label,
    name_of,
    profile_of,
    settings_lines,
    verdict_of,
    version_of,
)

_MARKS: Final[tuple[tuple[Sign, str], ...]] = (
    ("pass", "the release behaved as the clause requires"),
    ("fail", "the release violated the clause, and nothing excuses it"),
    (
        "deviates",
        "the release violated the clause, as its contract declares; the detail says what your orchestrator must do",
    ),
    ("stale", "the release passed, although its contract declares a deviation"),
    ("unsupported", "the contract names nothing to test, or the release lacks the feature"),
    ("not_run", "the clause could not be tested; the detail says why"),
    (EXCUSED, "the release violated the clause, and the baseline excuses it"),
)
MARKS = tuple(Mark(sign, sign, label(sign), meaning) for sign, meaning in _MARKS)
VERDICT_SIGNS: Final[Mapping[str, Sign]] = {
    "no verdict": "not_run",
    "compatible": "pass",
    "degraded": "deviates",
    "unanswered": "not_run",
    "broken": "fail",
}
IMPACT_SIGNS: Final[Mapping[str, Sign]] = {
    "breaking": "fail",
    "degraded": "deviates",
    "additive": "pass",
    "none": "unsupported",
}
NOTHING_TO_DO = "Nothing."
STAY = "Stay on the old release."
UNKNOWN = "Not everything could be tested. There may be more to do."


class ReleaseView(View, frozen=True, kw_only=True):
    """The view of a probe or a gate, which also shows how releases differ and which tools they offer.

    gate: The report of the gate; None for a probe.
    differences: Those with consequences, except the `fallen` ones.
    fallen: The clauses that are no longer testable because a prerequisite fails.
    contract_edits: What the newer release of a gate changes in a contract that can be edited.
    """

    probe: ProbeReport
    gate: GateReport | None
    differences: tuple[Difference, ...]
    fallen: tuple[Difference, ...]
    contract_edits: tuple[ContractEdit, ...]
    tool_access: tuple[tuple[ReleaseReport, ToolAccessRow], ...]


def view(report: ProbeReport | GateReport) -> ReleaseView:
    """Return the view of a probe or a gate."""
    probe, gate = (report.probe, report) if isinstance(report, GateReport) else (report, None)
    counts = Counter(release.verdict for release in probe.releases if release.verdict)
    verdicts = {verdict: counts[verdict] for verdict in reversed(Verdict)}
    differences = [row for row in gate.differences if row.impact is not Impact.NONE] if gate else []
    fallen = tuple(row for row in differences if (row.kind, row.after) == ("clause", Result.NOT_RUN))
    headline = gate_headline(gate) if gate else probe_headline(probe, verdicts)
    cases = [tuple(probe_cases(release, probe.fail_on)) for release in probe.releases]
    remarks = list(probe_remarks(cases))
    if gate:
        cases[-1] = (*gate_cases(gate.newer, gate.decision, probe.fail_on), *_changes(gate))
        remarks = [*gate_remarks(cases[-1], gate.decision), *_changes_required(gate)]
    suites = tuple(_suite(probe, gate, *judged, headline) for judged in zip(probe.releases, cases, strict=True))
    return ReleaseView(
        kind="gate" if gate else "probe",
        report=report,
        turngate=probe.turngate,
        started_at=probe.started_at,
        seconds=report.seconds,
        exit_code=report.exit_code,
        interrupted=probe.interrupted,
        outcome=gate.outcome if gate else "",
        headline=headline,
        meaning=gate_meaning(gate) if gate else meaning(probe, cases),
        meta=tuple(_meta(probe)),
        counts=tuple(_counts(verdicts, gate)),
        remarks=tuple(remarks),
        actions=gate.actions if gate else known_caveats(probe.releases),
        remaining=_remaining(gate) if gate else only_guarded((r.engine, r.version, r.verdict) for r in probe.releases),
        suites=suites[-1:] if gate else suites,
        marks=MARKS if gate else MARKS[:-1],
        columns=tuple(_column(number, release) for number, release in enumerate(probe.releases)),
        families=_families(cases),
        probe=probe,
        gate=gate,
        differences=tuple(row for row in differences if row not in fallen),
        fallen=fallen,
        contract_edits=contract_edits(gate) if gate else (),
        tool_access=tuple((release, row) for release in probe.releases for row in rows(release.tool_access)),
    )


def _remaining(gate: GateReport) -> str:
    if gate.outcome not in (GateOutcome.PASS, GateOutcome.FAIL) or gate.old.failed or gate.new.failed:
        return UNKNOWN
    if gate.actions:
        return ""
    return NOTHING_TO_DO if gate.outcome is GateOutcome.PASS else STAY


def _meta(probe: ProbeReport) -> Iterator[str]:
    """Say how releases were tested."""
    yield f"level {probe.level}"
    if probe.fail_on is not FailOn.BROKEN:
        yield f"fails on {probe.fail_on}"
    cores = f"{probe.cores} core{'s' * (probe.cores != 1)}"
    yield f"{duration(probe.seconds)} on {cores}; the engines used {duration(probe.engine_seconds)} of CPU time"
    yield visible(f"{probe.machine.system} {probe.machine.arch}")
    yield visible(f"turngate {probe.turngate}")
    if probe.clauses:
        yield visible(f"only {', '.join(probe.clauses)}")


def _counts(verdicts: Mapping[Verdict, int], gate: GateReport | None) -> Iterator[Count]:
    """Count the differences of a gate, or the verdicts, unless there are none because clauses were selected."""
    if gate:
        yield from (Count(impact, count, IMPACT_SIGNS[impact]) for impact, count in gate.counts.items())
    elif any(verdicts.values()):
        yield from (Count(word, count, VERDICT_SIGNS[word]) for word, count in verdicts.items())


def _changes(gate: GateReport) -> Iterator[JudgedCase]:
    """Say what an orchestrator must change."""
    texts = dict[str, list[str]]()
    for action in gate.actions:
        if action.new:
            texts.setdefault(action.title, []).append(action.text)
    for title, lines in texts.items():
        yield JudgedCase(name_of(gate.newer), title, "noted", "; ".join(lines), rule=CHANGE, release=gate.newer)


def _changes_required(gate: GateReport) -> Iterator[JudgedCase]:
    """Say that a green upgrade needs changes."""
    if gate.changes_required:
        count = sum(action.new for action in gate.actions)
        reported = f"{count} change{'s' * (count != 1)} to your orchestrator before you upgrade from {gate.old.release}"
        text = f"{CHANGES_REQUIRED}: {reported}"
        yield JudgedCase(name_of(gate.newer), "", "noted", text, release=gate.newer)


def _suite(
    probe: ProbeReport, gate: GateReport | None, release: ReleaseReport, cases: tuple[JudgedCase, ...], headline: str
) -> Suite:
    properties = {
        "turngate": probe.turngate,
        "level": probe.level,
        "verdict": release.verdict or "",
        "clause_set": release.clause_set,
        "profile": profile_of(release),
        "contract_version": release.contract_version,
        "executable": release.executable or "",
        "source": release.source,
    }
    if gate:
        properties |= {"upgrade from": gate.old.release, "outcome": gate.outcome, "headline": headline}
    times = {clause.id: _seconds(release, clause) for clause in release.clauses}
    return Suite(name_of(release), gate.seconds if gate else release.seconds, properties, cases, times)


def _seconds(release: ReleaseReport, clause: ClauseResult) -> float:
    """Return the duration of the turns in a clause's evidence or, without evidence, of those of its cases."""
    evidence = {item if isinstance(item, str) else getattr(item, "turn", "") for item in clause.evidence}
    named = release.durations.keys() & evidence
    if not named and clause.id in CHECKS:
        named = {turn for turn in release.durations if turn.partition("/")[0] in CHECKS[clause.id].cases}
    return sum(release.durations[turn] for turn in named)


def _column(number: int, release: ReleaseReport) -> Column:
    verdict = release.verdict or "no verdict"
    facts = tuple(_facts(release))
    summary, sign = verdict_of(release), VERDICT_SIGNS[verdict]
    return Column(number, release.engine, version_of(release), verdict, summary, sign, facts, release.failed)


def _facts(release: ReleaseReport) -> Iterator[Fact]:
    """Return what a page says about a release as a whole."""
    profile, able, handle = release.profile, release.capability, release.handle
    yield Fact("clauses", (counted(release),))
    yield Fact("profile", (f"{profile.kind.replace('_', ' ')}: {profile.reason}" if profile else NOT_KNOWN,))
    ability = able and ("supported" if able.supported else "not reliable")
    yield Fact("resume", (f"{ability}, by {able.probe_method}: {able.detail}" if able else NOT_KNOWN,))
    kind = f"({handle.handle_type.replace('_', ' ')})" if handle else "none"
    yield Fact("handle", (kind,), handle.handle_value if handle else "")
    yield Fact("executable", (f"{release.executable or 'none was run'} ({from_where(release.source)})",))
    if release.note:
        yield Fact("note", (release.note,))
    if lines := settings_lines(release):
        yield Fact("your settings", lines)
    unverified = f"; unverified: {', '.join(release.unverified)}" if release.unverified else ""
    yield Fact("contract", (f"{release.contract_version}{unverified}",))
    for mode, access in release.tool_access.modes() if release.tool_access else ():
        yield Fact(mode, tuple(_access(access)))
    cpu = f"{release.engine_seconds:.1f} s of the engine's CPU time"
    yield Fact("cost", (f"{release.turns} turns, {release.seconds:.1f} s, {cpu}",))


def _access(access: ModeToolAccess) -> Iterator[str]:
    if call := access.call:
        yield f"{call.tool}: {call.outcome}" + (f"; the model was told: {call.reported}" if call.reported else "")
    yield f"tools offered: {', '.join(access.tools or ()) or 'none'}"


def _families(cases: Sequence[Sequence[JudgedCase]]) -> tuple[RowFamily, ...]:
    """Return the rows by the first word of their clause, in the catalogue's order; unknown clauses come last."""
    judged = [{case.clause.id: case for case in of_release if case.clause} for of_release in cases]
    present = {name for by_id in judged for name in by_id}
    ids = [name for name in dict.fromkeys([*catalogue(), *(n for by_id in judged for n in by_id)]) if name in present]
    families: dict[str, list[Row]] = {}
    for number, clause_id in enumerate(ids):
        cells = tuple(by_id.get(clause_id) for by_id in judged)
        severity = next(cell.clause.severity for cell in cells if cell and cell.clause)
        entry, (family, _, short) = known(clause_id), clause_id.partition(".")
        sentence, why, to_do = (entry.sentence, entry.why, advice(entry)) if entry else ("", "", ())
        row = Row(number, clause_id, short, severity, sentence, why, cells, to_do)
        families.setdefault(family, []).append(row)
    return tuple(RowFamily(name, tuple(listed)) for name, listed in families.items())
