"""What every rendered report says in the same words: catalogue entries, evidence as plain lines, the gist."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from turngate.contract.clauses import Clause, Result, Severity
from turngate.contract.load import catalogue
from turngate.contract.verdict import Verdict
from turngate.sanitize import visible
from turngate_probes.report.build import Report
from turngate_probes.report.text import INDENT, basis, evidence_lines

WORST_FIRST = (Verdict.BROKEN, Verdict.UNANSWERED, Verdict.DEGRADED, Verdict.COMPATIBLE)
SEVEREST_FIRST = (Severity.BREAKING, Severity.DEGRADED, Severity.INFORMATIVE)


@cache
def known(clause_id: str) -> Clause | None:
    """Return the catalogue's entry; None for a clause of another turngate."""
    return next((each for each in catalogue().clauses if each.id == clause_id), None)


def name_of(release: Mapping[str, Any]) -> str:
    """Return the release's key, visible."""
    return visible(release["release"])


def evidence_text(evidence: Iterable[str | Mapping[str, Any]]) -> str:
    """Write evidence as plain lines, as the text report does."""
    lines = [(depth, line.plain) for each in evidence for depth, line in evidence_lines(each)]
    least = min((depth for depth, _ in lines), default=0)
    return "\n".join(INDENT * (depth - least) + line for depth, line in lines)


def failures(report: Report) -> Iterator[tuple[Report, Mapping[str, Any]]]:
    """Return every clause that failed, with its release; the severest first."""
    for severity in SEVEREST_FIRST:
        for release in report["releases"]:
            for clause in release["clauses"]:
                if clause["result"] == Result.FAIL and clause["severity"] == severity:
                    yield release, clause


def verdicts(report: Report) -> dict[Verdict, int]:
    """Count the releases of each verdict, the worst first."""
    found = Counter(release["verdict"] for release in report["releases"])
    return {verdict: found[verdict] for verdict in WORST_FIRST}


def gist(report: Report) -> str:
    """Say in one sentence what a reader wants to know first."""
    releases = report["releases"]
    if not releases:
        return "Nothing was probed"
    if len(releases) == 1:
        (only,) = releases
        return f"{name_of(only)} is {only['verdict']}{basis(only)}"
    worst, count = next((each, n) for each, n in verdicts(report).items() if n)
    if count == len(releases):
        return f"All {count} releases are {worst}"
    return f"{count} of {len(releases)} releases {'is' if count == 1 else 'are'} {worst}"
