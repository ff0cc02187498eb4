"""Where the claims of a contract begin and end, and whether the releases on both sides confirm it."""

from collections.abc import Iterator

from msgspec import Struct

from turngate.contract import load
from turngate.contract.engine_contract import Deviation
from turngate.contract.verdict import Verdict
from turngate.contract.versions import Basis, Claim, parse
from turngate.decoding import convert
from turngate.history import History, KnownRelease

USABLE = (Verdict.COMPATIBLE, Verdict.DEGRADED)


class Boundary(Struct, frozen=True):
    """A release where a claim begins or ends; `before` and `after` are the nearest tested releases."""

    claim: str
    edge: str
    version: str
    exact: bool
    before: str | None
    after: str | None
    basis: Basis


def boundaries(known: History) -> Iterator[Boundary]:
    """Yield every boundary of an engine's contract."""
    for claim in load.contract(known.engine).document.claims():
        # a single run can't show where a flaky deviation begins
        if not (_is_deviation(claim) and deviation(claim).flaky):
            for edge, version in ("since", claim.range.since), ("until", claim.range.until):
                if version is not None:
                    yield _boundary(claim, edge, version, known)


def deviation(claim: Claim) -> Deviation:
    """Return the deviation that a claim declares."""
    return convert(claim.data, Deviation)


def _is_deviation(claim: Claim) -> bool:
    return claim.path[0] == "deviations"


def _boundary(claim: Claim, edge: str, version: str, known: History) -> Boundary:
    published = [*known.published]
    asked = [each for each in known.releases if each.version in published and _was_asked(each, claim)]
    before = [earlier for earlier in asked if parse(earlier.version) < parse(version)]
    after = [later for later in asked if parse(later.version) >= parse(version)]
    neighbour = published[published.index(version) - 1] if version in published[1:] else ""
    inside, outside = (version, neighbour) if edge == "since" else (neighbour, version)
    return Boundary(
        _named(claim),
        edge,
        version,
        _confirmed(claim, known.find(inside), known.find(outside)),
        before[-1].version if before else None,
        after[0].version if after else None,
        convert(claim.data, Basis),
    )


def _was_asked(release: KnownRelease, claim: Claim) -> bool:
    """Return whether a release was tested for what shows the claim."""
    if _is_deviation(claim):
        return deviation(claim).clause in release.clauses
    shown_by = {evidence.clause for evidence in convert(claim.data, Basis).evidence if evidence.clause}
    # a release may have been tested before there was the clause
    return not shown_by.isdisjoint(release.clauses) if shown_by else release.tested


def _confirmed(claim: Claim, inside: KnownRelease | None, outside: KnownRelease | None) -> bool:
    """Return whether the tests of two neighbours show that only one is in the claim's range."""
    if inside is None or outside is None or not _was_asked(inside, claim):
        return False
    if not _is_deviation(claim):
        return _was_asked(outside, claim)
    # a broken release has no deviations
    asked = _was_asked(outside, claim) or outside.verdict is Verdict.BROKEN
    return asked and _shows(inside, claim) and not _shows(outside, claim)


def _shows(release: KnownRelease, claim: Claim) -> bool:
    """Return whether a release showed a deviation's symptom."""
    declared = deviation(claim)
    return declared.clause in release.clauses and declared.symptom in release.clauses[declared.clause].symptoms


def _named(claim: Claim) -> str:
    section = str(claim.path[0])
    if _is_deviation(claim):
        return f"{deviation(claim).clause}: {deviation(claim).symptom}"
    return f"{section}: {claim.data['flag']}" if "flag" in claim.data else section


def disagreeing(engine: str, release: KnownRelease) -> tuple[list[str], list[str]]:
    """Return the declared deviations that a release did not show, and those it showed undeclared."""
    if release.verdict not in USABLE:
        return [], []
    deviations = load.contract(engine).at(release.version).deviations
    declared = {f"{known.clause}: {known.symptom}" for known in deviations}
    always = {
        f"{known.clause}: {known.symptom}"
        for known in deviations
        if not known.flaky and known.clause in release.clauses
    }
    shown = {f"{clause}: {symptom}" for clause, result in release.clauses.items() for symptom in result.symptoms}
    return sorted(always - shown), sorted(shown - declared)
