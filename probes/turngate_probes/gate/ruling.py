"""Decides whether you can upgrade to the newer release: the outcome, and the reasons for it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import structs

from turngate.contract.clauses import Result, Severity
from turngate.contract.verdict import FALLEN, FailOn, Verdict
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
    *, fail_on: FailOn = FailOn.BROKEN, interrupted: bool = False,
) -> tuple[Ruling, tuple[Entry, ...]]:  # fmt: skip
    """Judge the newer release by `fail_on` and the baseline; also return what the baseline's entries do."""
    results = Results(new)
    against = list(_against(new, list(differences), fail_on))
    named = {reason.clause for reason in against}
    entries = tuple(
        structs.replace(entry, state=baseline.state(_result(entry.clause, results, new), named=entry.clause in named))
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
        outcome, text = GateOutcome.INTERRUPTED, "interrupted, so the results are incomplete"
        reasons = [GateReason("interrupted", "interrupted", text)]
    if unexplained := [*bugs(old), *bugs(new)]:
        outcome, reasons = GateOutcome.CRASHED, [GateReason("crashed", n, f"{n}: {BUG}") for n in unexplained]
    return Ruling(outcome, tuple(dict.fromkeys(reasons)), excused), entries


def sentences(ruling: Ruling) -> tuple[str, ...]:
    """Return the reasons without duplicates."""
    return tuple(dict.fromkeys(reason.text for reason in ruling.reasons))


def _result(name: str, results: Results, new: ReleaseReport) -> Result:
    """Return the result of a baseline entry's subject."""
    if name != UNASKED:
        return results.of(name)
    access = new.tool_access and new.tool_access.interactive
    return Result.PASS if access and access.call else Result.NOT_RUN


def _against(new: ReleaseReport, differences: Sequence[Difference], fail_on: FailOn) -> Iterator[GateReason]:
    """Return what fails the gate, unless the baseline excuses it."""
    yield from _differing(differences, Impact.BREAKING)
    # a breaking clause counts even if it failed before
    yield from _failing(new, breaking=True)
    if fail_on is FailOn.BROKEN:
        return
    yield from _differing(differences, Impact.DEGRADED)
    yield from _failing(new, breaking=False)
    with_caveats = fail_on is FailOn.CAVEAT
    for clause in new.clauses:
        if with_caveats and clause.result is Result.DEVIATES:
            yield GateReason("caveat", clause.id, f"{clause.id} is a known caveat: {clause.detail}", clause.id)
        elif clause.stale:
            text = f"a declared deviation of {clause.id} no longer occurs: {clause.detail}"
            yield GateReason("stale", clause.id, text, clause.id)
    if with_caveats:
        yield from _declared(new, differences)


def _differing(differences: Iterable[Difference], impact: Impact) -> Iterator[GateReason]:
    """Return the differences of an impact, except caveats, claims, and clauses that fail."""
    for row in differences:
        if row.impact is not impact or row.kind in ("claim", "deviation"):
            continue
        if row.kind != "clause":
            about = f"{row.kind} {row.subject}"
            yield GateReason(row.kind, about, f"{about}: {row.detail}", row.clause)
        elif row.after == Result.UNSUPPORTED:
            yield GateReason("clause", row.subject, f"{row.subject} is unsupported: {row.detail}", row.clause)


def _failing(new: ReleaseReport, *, breaking: bool) -> Iterator[GateReason]:
    """Return the clauses that fail, either the breaking ones or the others."""
    for clause in new.clauses:
        if clause.result is Result.FAIL and (clause.severity is Severity.BREAKING) is breaking:
            yield GateReason("clause", clause.id, f"{clause.id} fails: {clause.detail}", clause.id)


def _declared(new: ReleaseReport, differences: Iterable[Difference]) -> Iterator[GateReason]:
    """Return the new caveats that did not occur this time."""
    shown = {clause.id for clause in new.clauses if clause.stale or clause.result is Result.DEVIATES}
    for row in differences:
        if row.kind == "deviation" and row.after is not None and row.clause not in shown:
            yield GateReason("caveat", f"caveat {row.subject}", f"new caveat {row.subject}: {row.detail}", row.clause)


def _unanswered(release: ReleaseReport) -> Iterator[GateReason]:
    name, results = release.release, Results(release)
    if release.failed:
        yield GateReason("unanswered", name, f"{name} could not be tested: {release.failed.what}")
        return
    left_open = [
        clause for clause in release.clauses
        if (clause.severity, clause.result) == (Severity.BREAKING, Result.NOT_RUN) and not results.fallen(clause.id)
    ]  # fmt: skip
    for clause in left_open:
        text = f"{name}: {clause.id} could not be tested: {clause.detail}"
        yield GateReason("unanswered", f"{name}: {clause.id}", text)
    fell = any(clause.result in FALLEN for clause in release.clauses)
    if not left_open and release.verdict is Verdict.UNANSWERED and not fell:
        yield GateReason("unanswered", name, f"{name} is unanswered")
