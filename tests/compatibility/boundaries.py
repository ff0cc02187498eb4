"""Where the claims of a contract begin and end, and whether the releases on both sides confirm it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from turngate.contract import load
from turngate.contract.versions import parse

USABLE = ("compatible", "degraded")


@dataclass(frozen=True, slots=True)
class Boundary:
    """A release where a claim begins or ends; `before` and `after` are the nearest tested releases."""

    claim: str
    edge: str
    version: str
    exact: bool
    before: str | None
    after: str | None
    unverified: bool
    note: str


def boundaries(name: str, engine: Mapping[str, Any]) -> Iterator[Boundary]:
    """Yield every boundary of an engine's contract."""
    contract = load.contract(name)
    for claim in contract.document.claims():
        for edge in ("since", "until"):
            # a single run can't show where a flaky deviation begins
            if edge in claim.data and "flaky" not in claim.data:
                yield _boundary(_named(str(claim.path[0]), claim.data), edge, claim.data, engine)


def _boundary(named: str, edge: str, claim: Mapping[str, Any], engine: Mapping[str, Any]) -> Boundary:
    version, published = claim[edge], engine["published"]
    run = [release for release in published if _was_asked(engine["releases"].get(release, {"lost": True}), claim)]
    before = [earlier for earlier in run if parse(earlier) < parse(version)]
    after = [later for later in run if parse(later) >= parse(version)]
    neighbour = published[published.index(version) - 1] if version in published[1:] else None
    inside, outside = (version, neighbour) if edge == "since" else (neighbour, version)
    exact = {version, neighbour} <= {*run} and (
        "symptom" not in claim or (_shows(engine, inside, claim) and not _shows(engine, outside, claim))
    )
    return Boundary(
        named,
        edge,
        version,
        exact,
        before[-1] if before else None,
        after[0] if after else None,
        "unverified" in claim,
        claim.get("note", ""),
    )


def _was_asked(release: Mapping[str, Any], claim: Mapping[str, Any]) -> bool:
    """Return whether a release was tested, and if only for some clauses, for one that shows the claim."""
    showing = {claim.get("clause"), *(evidence.get("clause") for evidence in claim.get("evidence", ()))}
    return "lost" not in release and ("asked" not in release or not showing.isdisjoint(release["asked"]))


def _shows(engine: Mapping[str, Any], version: str | None, deviation: Mapping[str, Any]) -> bool:
    """Return whether a release showed a deviation's symptom."""
    seen = engine["releases"][version]["found"].get(deviation["clause"], {})
    return deviation["symptom"] in seen.get("symptoms", ())


def _named(section: str, claim: Mapping[str, Any]) -> str:
    if "symptom" in claim:
        return f"{claim['clause']}: {claim['symptom']}"
    return f"{section}: {claim['flag']}" if "flag" in claim else section


def disagreeing(name: str, version: str, release: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the declared deviations that a release did not show, and those it showed undeclared."""
    if release.get("verdict") not in USABLE:
        return [], []
    declared = {f"{d.clause}: {d.symptom}": d.flaky for d in load.contract(name).at(version).deviations}
    always = {deviation for deviation, flaky in declared.items() if not flaky}
    shown = {
        f"{clause}: {symptom}" for clause, result in release["found"].items() for symptom in result.get("symptoms", ())
    }
    return sorted(always - shown), sorted(shown - declared.keys())
