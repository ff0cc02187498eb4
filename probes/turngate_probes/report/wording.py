"""The words for a release, its verdict, its clauses and its duration in every format."""

from collections import Counter
from typing import Final

from turngate.contract.clauses import Clause, Result
from turngate.contract.load import catalogue
from turngate.contract.verdict import ClauseResult
from turngate.sanitize import visible
from turngate_probes.report.structs import ReleaseReport

NOT_TESTED: Final = "not tested"
LABELS: Final[dict[str, str]] = {Result.DEVIATES: "known caveat"}
MINUTE, TEN = 60, 10


def known(clause_id: str) -> Clause | None:
    """Return the catalogue's entry; None for a clause of another version of turngate."""
    return catalogue().get(clause_id)


def name_of(release: ReleaseReport) -> str:
    """Return the release's key, with control characters escaped."""
    return visible(release.release)


def version_of(release: ReleaseReport) -> str:
    """Return the version, with control characters escaped, and what the key adds if builds share the version."""
    name, key = f"{release.engine}@{release.version or 'unknown'}", release.release
    return visible((release.version or "?") + (key.removeprefix(name) if key.startswith(name) else ""))


def basis(release: ReleaseReport) -> str:
    """Return the addition to a verdict that is based on recordings; empty if the release was run."""
    return ", from recordings" if release.source == "recordings" else ""


def verdict_of(release: ReleaseReport) -> str:
    """Return the verdict of a release (none for selected clauses) with the number of its caveats."""
    caveats = sum(clause.result is Result.DEVIATES for clause in release.clauses)
    with_caveats = f", {caveats} known caveat{'s' * (caveats > 1)}" if caveats else ""
    return f"{release.verdict or 'no verdict'}{with_caveats}{basis(release)}"


def profile_of(release: ReleaseReport) -> str:
    """Return the profile kind of a release; `not tested` if resuming was not tested."""
    return release.profile.kind if release.profile else NOT_TESTED


def counted(release: ReleaseReport) -> str:
    """Return the number of clauses by result; `unsupported` is left out if it is 0."""
    counts = Counter(clause.result for clause in release.clauses)
    caveats, total = counts[Result.DEVIATES], len(release.clauses)
    words = [f"{counts[Result.PASS]} passed", f"{caveats} known caveat{'s' * (caveats != 1)}"]
    words += [f"{counts[Result.FAIL]} failed", f"{counts[Result.NOT_RUN]} not run"]
    words += [f"{counts[Result.UNSUPPORTED]} unsupported"] if counts[Result.UNSUPPORTED] else []
    return f"{total} clause{'s' * (total != 1)}: {', '.join(words)}"


def duration(seconds: float) -> str:
    """Return a readable duration: `0.4 s`, `12 s`, `3 min 3 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < MINUTE:
        return f"{seconds:.1f} s" if whole < TEN else f"{whole} s"
    minutes, rest = divmod(whole, MINUTE)
    hours, minutes = divmod(minutes, MINUTE)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def state(clause: ClauseResult) -> str:
    """Return the result of a clause, or `stale`."""
    return "stale" if clause.stale and clause.result is Result.PASS else clause.result


def label(state_of_clause: str) -> str:
    """Return the words for a result: `deviates` is a known caveat."""
    return LABELS.get(state_of_clause, state_of_clause.replace("_", " "))
