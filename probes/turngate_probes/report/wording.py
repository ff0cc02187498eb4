"""The words for a release, its verdict, its clauses and their results, for many releases, and for a duration."""

from collections import Counter
from typing import Final

from msgspec import UnsetType

from turngate.contract.clauses import Clause, Result
from turngate.contract.load import catalogue
from turngate.contract.verdict import ClauseResult
from turngate.sanitize import visible
from turngate_probes.journal.events import Origin
from turngate_probes.report.reports import GatedRelease, ReleaseReport

MINUTE, TEN = 60, 10
EXPLAIN: Final = "turngate explain"
NOT_KNOWN: Final = "not known"
OWN_PIN: Final = (
    "turngate's own pin, because neither --from nor a setting nor a file in this folder names the release that you use"
)
LABELS: Final[dict[str, str]] = {Result.DEVIATES: "known caveat"}


def known(clause_id: str) -> Clause | None:
    """Return the catalogue's entry; None for a clause of another version of turngate."""
    return catalogue().get(clause_id)


def from_where(source: Origin) -> str:
    """Return where a release comes from, such as `from npm`."""
    return "no executable" if source == "none" else f"from {source}"


def advice(clause: Clause) -> tuple[str, ...]:
    """Return what to do if a clause fails, in an orchestrator and in a contract, and the command that explains it."""
    contract = (f"In a contract: {clause.contract}",) if clause.contract else ()
    return f"In an orchestrator: {clause.orchestrator}", *contract, f"More: {EXPLAIN} {clause.id}"


def name_of(release: ReleaseReport) -> str:
    """Return the release's key, with control characters escaped."""
    return visible(release.release)


def version_of(release: ReleaseReport) -> str:
    """Return the version, with control characters escaped, and what the key adds if builds share the version."""
    name, key = f"{release.engine}@{release.version or 'unknown'}", release.release
    return visible((release.version or "?") + (key.removeprefix(name) if key.startswith(name) else ""))


def remarks(release: ReleaseReport) -> list[str]:
    """Return what qualifies the results of a release, such as that its executable is simulated."""
    _, *rest = (release.note or "").split("; ")  # the first says how the executable was chosen
    return [visible(f"{release.release}: {remark}") for remark in rest]


def basis(release: ReleaseReport) -> str:
    """Return the addition to a verdict that is based on recordings; empty if the release was run."""
    return ", from recordings" if release.source == "recordings" else ""


def clause_set_of(release: ReleaseReport | GatedRelease) -> str:
    """Return the name of the set of clauses by which a release was judged, and what of it was not asked."""
    return visible(catalogue().scope(release.clause_set, release.level))


def verdict_of(release: ReleaseReport) -> str:
    """Return the verdict of a release, its set of clauses, and the number of its caveats; none for selected clauses."""
    caveats = sum(clause.result is Result.DEVIATES for clause in release.clauses)
    with_caveats = f", {caveats} known caveat{'s' * (caveats > 1)}" if caveats else ""
    verdict = f"{release.verdict} ({clause_set_of(release)})" if release.verdict else "no verdict"
    return f"{verdict}{with_caveats}{basis(release)}"


def profile_of(release: ReleaseReport) -> str:
    """Return the profile kind of a release; `not known` if resuming was not tested."""
    return release.profile.kind if release.profile else NOT_KNOWN


def counted(release: ReleaseReport) -> str:
    """Return the number of clauses by result; `unsupported` is left out if it is 0."""
    counts = Counter(clause.result for clause in release.clauses)
    caveats, total = counts[Result.DEVIATES], len(release.clauses)
    words = [f"{counts[Result.PASS]} passed", f"{caveats} known caveat{'s' * (caveats != 1)}"]
    words += [f"{counts[Result.FAIL]} failed", f"{counts[Result.NOT_RUN]} not run"]
    words += [f"{counts[Result.UNSUPPORTED]} unsupported"] if counts[Result.UNSUPPORTED] else []
    return f"{total} clause{'s' * (total != 1)}: {', '.join(words)}"


def state(clause: ClauseResult) -> str:
    """Return the result of a clause, or `stale`."""
    return "stale" if clause.stale and clause.result is Result.PASS else clause.result


def label(state_of_clause: str) -> str:
    """Return the words for a result: `deviates` is a known caveat."""
    return LABELS.get(state_of_clause, state_of_clause.replace("_", " "))


def settings_lines(release: ReleaseReport) -> tuple[str, ...]:
    """Return which of the user's settings a release was tested with, and what they change; empty: not asked for."""
    if isinstance(release.settings, UnsetType):
        return ()
    if not release.settings.copied:
        return ("none: you have none that the contract lists",)
    amiss = [clause for clause in release.clauses if clause.result in (Result.FAIL, Result.DEVIATES)]
    without = {clause.id: release.settings.without.get(clause.id, Result.NOT_RUN) for clause in amiss}
    unknown = [clause for clause, result in without.items() if result is Result.NOT_RUN]
    changed = [
        f"{clause.id} ({label(without[clause.id])} without them)"
        for clause in amiss
        if without[clause.id] not in (clause.result, Result.NOT_RUN)
    ]
    told = f"clauses that they change: {', '.join(changed) or 'none'}"
    open_ = f"; not known, since it was not tested without them: {', '.join(unknown)}" if unknown else ""
    return "; ".join(release.settings.copied), told + open_


def duration(seconds: float) -> str:
    """Return a readable duration: `0.4 s`, `12 s`, `3 min 3 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < MINUTE:
        return f"{seconds:.1f} s" if whole < TEN else f"{whole} s"
    minutes, rest = divmod(whole, MINUTE)
    hours, minutes = divmod(minutes, MINUTE)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
