"""What every rendered report says in the same words: catalogue entries, failures, verdicts, the gist."""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache

from turngate.contract.clauses import Clause, Result, Severity
from turngate.contract.load import catalogue
from turngate.contract.verdict import ClauseResult, Verdict
from turngate.sanitize import visible
from turngate_probes.report.structs import ProbeReport, ReleaseReport

WORST_FIRST = (Verdict.BROKEN, Verdict.UNANSWERED, Verdict.DEGRADED, Verdict.COMPATIBLE)
SEVEREST_FIRST = (Severity.BREAKING, Severity.DEGRADED, Severity.INFORMATIVE)


@cache
def known(clause_id: str) -> Clause | None:
    """Return the catalogue's entry; None for a clause of another turngate."""
    return next((clause for clause in catalogue().clauses if clause.id == clause_id), None)


def name_of(release: ReleaseReport) -> str:
    """Return the release's key, visible."""
    return visible(release.release)


def basis(release: ReleaseReport) -> str:
    """Return what is added to a verdict that rests on recordings, empty where the release was run."""
    return ", from recordings" if release.source == "recordings" else ""


def failures(releases: Iterable[ReleaseReport]) -> Iterator[tuple[ReleaseReport, ClauseResult]]:
    """Return every clause that failed, with its release; the severest first."""
    listed = list(releases)
    for severity in SEVEREST_FIRST:
        for release in listed:
            for clause in release.clauses:
                if clause.result == Result.FAIL and clause.severity == severity:
                    yield release, clause


def verdicts(report: ProbeReport) -> dict[Verdict, int]:
    """Count the releases of each verdict, the worst first."""
    counts = Counter(release.verdict for release in report.releases)
    return {verdict: counts[verdict] for verdict in WORST_FIRST}


def gist(report: ProbeReport) -> str:
    """Say in one sentence what a reader wants to know first."""
    releases = report.releases
    if not releases:
        return "Nothing was probed"
    if len(releases) == 1:
        (only,) = releases
        return f"{name_of(only)} is {only.verdict}{basis(only)}"
    worst, count = next(pair for pair in verdicts(report).items() if pair[1])
    if count == len(releases):
        return f"All {count} releases are {worst}"
    return f"{count} of {len(releases)} releases {'is' if count == 1 else 'are'} {worst}"
