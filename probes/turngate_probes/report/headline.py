"""What a whole probe or gate says, in one line, and what its exit code means."""

from collections.abc import Iterable, Mapping, Sequence

from turngate.contract.clauses import Result
from turngate.contract.verdict import FailOn, Verdict
from turngate.history_text import named
from turngate.sanitize import visible
from turngate_probes.report.reports import GateOutcome, GateReport, ProbeReport, ReleaseReport
from turngate_probes.report.view import JudgedCase
from turngate_probes.report.wording import OWN_PIN, clause_set_of, counted, name_of, verdict_of

PAIR = 2
CHANGES_REQUIRED = "green, changes required"
UPGRADES = {
    GateOutcome.PASS: "green, you can upgrade from",
    GateOutcome.FAIL: "red, do not upgrade from",
    GateOutcome.UNANSWERED: "unanswered, because not everything could be tested for the upgrade from",
    GateOutcome.CRASHED: "unanswered, because turngate itself failed while testing the upgrade from",
    GateOutcome.INTERRUPTED: "interrupted while testing the upgrade from",
}
GATE_MEANING = {
    GateOutcome.PASS: "nothing prevents the upgrade",
    GateOutcome.UNANSWERED: "not everything could be tested",
    GateOutcome.CRASHED: "turngate itself failed, which says nothing about the engine",
    GateOutcome.INTERRUPTED: "interrupted, so the results are incomplete",
}
GATE_FAILS = {
    FailOn.BROKEN: "something breaks",
    FailOn.DEGRADED: "something breaks or gets worse, or a declared deviation no longer occurs",
    FailOn.CAVEAT: "something breaks or gets worse, or there are known caveats",
}
MEANING = {
    3: "turngate itself failed and can't say why a clause was not run; please report this bug",
    130: "interrupted",
}
NONE_FAILS = {
    FailOn.BROKEN: "no release is broken or unanswered",
    FailOn.DEGRADED: "no release is broken, degraded or unanswered",
    FailOn.CAVEAT: "no release is broken, degraded or unanswered, or has known caveats",
}
NOTHING = "nothing was probed"


def gate_headline(report: GateReport) -> str:
    """Return what a gate says about the newer release."""
    advice = f"{CHANGES_REQUIRED} before you upgrade from" if report.changes_required else UPGRADES[report.outcome]
    old, new = report.old, report.new
    is_same = (old.version, old.source, old.executable) == (new.version, new.source, new.executable)
    same = ", which is the same release" if is_same else ""
    whose = ", turngate's own pin and perhaps not yours" if OWN_PIN in (old.note or "") else ""
    only = ", selected clauses only" if report.clauses else ""
    return visible(f"{new.release}: {advice} {old.release}{same}{whose} ({clause_set_of(new)}{only})")


def gate_meaning(report: GateReport) -> str:
    """Return what the exit code of a gate means."""
    return GATE_MEANING.get(report.outcome, GATE_FAILS[report.probe.fail_on])


def probe_headline(report: ProbeReport, verdicts: Mapping[Verdict, int]) -> str:
    """Return the verdict of the only release, or how many releases have the worst one."""
    releases = report.releases
    if not releases:
        return "Nothing was probed"
    if len(releases) == 1:
        (only,) = releases
        return f"{name_of(only)} is {verdict_of(only)}" if only.verdict else f"{name_of(only)}: {counted(only)}"
    if not any(verdicts.values()):
        failing = sum(any(clause.result is Result.FAIL for clause in release.clauses) for release in releases)
        return f"{failing} of {len(releases)} releases fail a selected clause"
    worst, count = next(pair for pair in verdicts.items() if pair[1])
    if count == len(releases):
        return f"{'Both' if count == PAIR else f'All {count}'} releases are {worst}"
    return f"{count} of {len(releases)} releases {'is' if count == 1 else 'are'} {worst}"


def meaning(report: ProbeReport, cases: Sequence[Sequence[JudgedCase]]) -> str:
    """Return what the exit code of a probe means, with the releases that are the reason for it and their cases."""
    if not report.releases and not report.interrupted:
        return NOTHING
    if known := MEANING.get(report.exit_code) if report.exit_code else NONE_FAILS[report.fail_on]:
        return known
    reasons: dict[str, list[str]] = {}
    for release, judged in zip(report.releases, cases, strict=True):
        if shortcoming := _shortcoming(release, judged, report.exit_code):
            reasons.setdefault(shortcoming, []).append(name_of(release))
    return "; ".join(f"{named(names)} {_verb(shortcoming, len(names))}" for shortcoming, names in reasons.items())


def _shortcoming(release: ReleaseReport, cases: Iterable[JudgedCase], exit_code: int) -> str:
    """Return why a release makes the exit code what it is: an adjective, or what it has; empty if it doesn't."""
    if exit_code != 1:
        return "unanswered" if any(case.judgement == "open" for case in cases) else ""
    failed = {case.kind for case in cases if case.judgement == "failed"}
    if failed and release.verdict is None:
        return "selected"
    words = {"breaking": "broken", "degraded": "degraded", "informative": "degraded"}
    return next((words.get(kind, kind) for kind in (*words, "stale", "caveat") if kind in failed), "")


def _verb(shortcoming: str, count: int) -> str:
    if shortcoming == "selected":
        return f"{'fails' if count == 1 else 'fail'} a selected clause"
    has = {"stale": "a declared deviation that no longer occurs", "caveat": "known caveats"}
    if shortcoming in has:
        return f"{'has' if count == 1 else 'have'} {has[shortcoming]}"
    return f"{'is' if count == 1 else 'are'} {shortcoming}"
