"""May the newer release take the older one's place: the outcome, and the reasons for it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import structs

from turngate.contract.clauses import Result, Severity
from turngate.contract.verdict import FALLEN, Verdict
from turngate_probes.gate import baseline
from turngate_probes.gate.baseline import UNASKED
from turngate_probes.gate.compare import Results
from turngate_probes.report.build import BUG, CRASHED_CODE, INTERRUPTED_CODE, bugs
from turngate_probes.report.gate_structs import Difference, Entry, Excuse, GateOutcome, GateReason, Impact, Ruling
from turngate_probes.report.structs import ExitCode, ReleaseReport

CODES: Mapping[GateOutcome, ExitCode] = {
    GateOutcome.PASS: 0,
    GateOutcome.FAIL: 1,
    GateOutcome.UNANSWERED: 2,
    GateOutcome.CRASHED: CRASHED_CODE,
    GateOutcome.INTERRUPTED: INTERRUPTED_CODE,
}


def rule(
    old: ReleaseReport, new: ReleaseReport, differences: Iterable[Difference], expected: Sequence[Entry],
    *, interrupted: bool = False,
) -> tuple[Ruling, tuple[Entry, ...]]:  # fmt: skip
    """Judge two releases and what they differ in by the entries that concern the newer one; return what those do."""
    results = Results(new)
    surface = list(_breaking(differences))
    against = [*surface, *_failing(new)]
    named = {reason.clause for reason in surface}
    entries = tuple(
        structs.replace(entry, state=baseline.state(_result(entry.clause, results, new), breaks=entry.clause in named))
        for entry in expected
    )
    excusing = {entry.clause: entry for entry in entries if entry.state == "excuses"}
    excused = tuple(Excuse(r, excusing[r.clause].reason) for r in against if r.clause in excusing)
    standing = [reason for reason in against if reason.clause not in excusing]
    for entry in entries:
        if entry.state == "passes":
            text = f"{entry.clause} passes now: remove {entry.at} ({entry.reason})"
            standing.append(GateReason("baseline", f"baseline {entry.clause}", text, entry.clause, entry.at))
    left_open = [*_unanswered(old), *_unanswered(new)]
    outcome = GateOutcome.FAIL if standing else GateOutcome.UNANSWERED if left_open else GateOutcome.PASS
    reasons = [*standing, *left_open]
    if interrupted:
        outcome, text = GateOutcome.INTERRUPTED, "interrupted: this is what was known by then"
        reasons = [GateReason("interrupted", "interrupted", text)]
    if unexplained := [*bugs(old), *bugs(new)]:
        outcome, reasons = GateOutcome.CRASHED, [GateReason("crashed", n, f"{n}: {BUG}") for n in unexplained]
    return Ruling(outcome, tuple(dict.fromkeys(reasons)), excused), entries


def sentences(ruling: Ruling) -> tuple[str, ...]:
    """Return the reasons, each sentence once."""
    return tuple(dict.fromkeys(reason.text for reason in ruling.reasons))


def _result(name: str, results: Results, new: ReleaseReport) -> Result:
    """Return the result of what an entry of a baseline names."""
    if name != UNASKED:
        return results.of(name)
    access = new.tool_access and new.tool_access.interactive
    return Result.PASS if access and access.call else Result.NOT_RUN


def _breaking(differences: Iterable[Difference]) -> Iterator[GateReason]:
    """Return the breaking differences, except those of clauses."""
    for row in differences:
        if row.impact is Impact.BREAKING and row.kind != "clause":
            about = f"{row.kind} {row.subject}"
            yield GateReason(row.kind, about, f"{about}: {row.detail}", row.clause)


def _failing(new: ReleaseReport) -> Iterator[GateReason]:
    """Return the breaking clauses that fail, whether or not they failed before."""
    for clause in new.clauses:
        if (clause.severity, clause.result) == (Severity.BREAKING, Result.FAIL):
            yield GateReason("clause", clause.id, f"{clause.id} fails: {clause.detail}", clause.id)


def _unanswered(release: ReleaseReport) -> Iterator[GateReason]:
    name, results = release.release, Results(release)
    if release.failed:
        yield GateReason("unanswered", name, f"{name} could not be asked: {release.failed.what}")
        return
    left_open = [
        clause for clause in release.clauses
        if (clause.severity, clause.result) == (Severity.BREAKING, Result.NOT_RUN) and not results.fallen(clause.id)
    ]  # fmt: skip
    for clause in left_open:
        text = f"{name}: {clause.id} was not answered: {clause.detail}"
        yield GateReason("unanswered", f"{name}: {clause.id}", text)
    fell = any(clause.result in FALLEN for clause in release.clauses)
    if not left_open and release.verdict is Verdict.UNANSWERED and not fell:
        yield GateReason("unanswered", name, f"{name} is unanswered")
