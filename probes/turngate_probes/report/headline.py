"""The headline of a report, and what its exit code means."""

from collections.abc import Mapping

from turngate.contract.clauses import Result
from turngate.contract.verdict import FailOn, Verdict
from turngate.sanitize import visible
from turngate_probes.report.gate_structs import GateOutcome, GateReport
from turngate_probes.report.structs import ProbeReport
from turngate_probes.report.wording import counted, name_of, verdict_of

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
    0: "no release fails or is unanswered",
    1: "a release fails",
    2: "a release is unanswered",
    3: "turngate itself failed and can't say why a clause was not run; please report this bug",
    130: "interrupted",
}
FAILS = {
    FailOn.BROKEN: "a release is broken",
    FailOn.DEGRADED: "a release is broken or degraded, or a declared deviation no longer occurs",
    FailOn.CAVEAT: "a release is broken or degraded, or has known caveats",
}
NOTHING = "nothing was probed"


def gate_headline(report: GateReport) -> str:
    """Return what a gate says about the newer release."""
    said = f"{CHANGES_REQUIRED} before you upgrade from" if report.changes_required else UPGRADES[report.outcome]
    only = " (selected clauses only)" if report.clauses else ""
    return visible(f"{report.new.release}: {said} {report.old.release}{only}")


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


def meaning(report: ProbeReport) -> str:
    """Return what the exit code of a probe means."""
    if not report.releases and not report.interrupted:
        return NOTHING
    return FAILS[report.fail_on] if report.exit_code == 1 else MEANING[report.exit_code]
