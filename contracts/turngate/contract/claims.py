"""What the claims of a contract rest on, and whether two of them speak of the same thing at the same release."""

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import combinations
from typing import Any

from turngate.contract.clauses import Catalogue
from turngate.contract.load import ALL_OF, ONE_OF, Document, Path_, claim_range
from turngate.errors import ContractError

_RECORDING = re.compile(r"(?P<engine>[a-z][a-z0-9-]*)/(?P<version>[^/]+)/(?P<turn>[^/]+)")
_KINDS = ("clause", "recording", "observed")


def claims(document: Document) -> Iterator[tuple[Path_, dict[str, Any]]]:
    """Yield every claim with its path; a simulation is one, and each of its changes."""
    if document.data.get("schema") == "turngate.simulation/1":
        yield (), document.data
        yield from ((("changes", i), change) for i, change in enumerate(document.data.get("changes", ())))
        return
    for section in (*ONE_OF, *ALL_OF):
        for i, claim in enumerate(document.data.get(section, ())):
            yield (section, i), claim


def about(document: Document, clause_id: str, version: str | None) -> list[Path_]:
    """Find the claims on a release that a clause shows, or excuses; else those of the section that it is called by."""
    covering = [(path, claim) for path, claim in claims(document) if _covers(claim, version)]
    shown = [
        path for path, claim in covering
        if clause_id in (claim.get("clause"), *(each.get("clause") for each in claim.get("evidence", ())))
    ]  # fmt: skip
    return shown or [path for path, _ in covering if path[0] == clause_id.partition(".")[0]]


def claim_errors(document: Document, clauses: Catalogue) -> Iterator[ContractError]:
    """Find useless evidence, and entries of lists that overlap."""
    yield from evidence_errors(document, claims(document), clauses)
    for section in ALL_OF:
        yield from _said_twice(document, section)


def evidence_errors(
    document: Document, held: Iterable[tuple[Path_, Mapping[str, Any]]], clauses: Catalogue
) -> Iterator[ContractError]:
    """Find useless evidence of these claims."""
    known = {clause.id for clause in clauses.clauses}
    for path, claim in held:
        for k, evidence in enumerate(claim.get("evidence", ())):
            if wrong := _wrong_evidence(evidence, document.data["engine"], known):
                yield document.error((*path, "evidence", k), *wrong)


def recordings_named(document: Document) -> Iterator[tuple[Path_, str]]:
    """Return the recordings that are evidence, as `engine/version/case-step`, with their place."""
    for path, claim in claims(document):
        for k, evidence in enumerate(claim.get("evidence", ())):
            if "recording" in evidence:
                yield (*path, "evidence", k), evidence["recording"]


def _wrong_evidence(evidence: Mapping[str, Any], engine: str, known: set[str]) -> tuple[str, str] | None:
    kinds = [kind for kind in _KINDS if kind in evidence]
    if len(kinds) != 1:
        return f"has {' and '.join(kinds) or 'no evidence'}", f"write one of {', '.join(_KINDS)} in each entry"
    if "releases" in evidence and "observed" not in evidence:
        return f"a {kinds[0]} takes no releases", "name the releases with what was `observed`"
    if "clause" in evidence and evidence["clause"] not in known:
        near = get_close_matches(evidence["clause"], known, 1)
        return f"there is no clause {evidence['clause']!r}", f"did you mean {near[0]}?" if near else "see clauses.yaml"
    if "recording" in evidence:
        found = _RECORDING.fullmatch(evidence["recording"])
        if not found or found["engine"] != engine:
            hint = f"write {engine}/<version>/<case>-<step>"
            return f"{evidence['recording']!r} names no recording of {engine}", hint
    return None


def _said_twice(document: Document, section: str) -> Iterator[ContractError]:
    for (i, first), (j, second) in combinations(enumerate(document.data.get(section, ())), 2):
        both = _subjects(first) & _subjects(second)
        if both and claim_range(first).overlaps(claim_range(second)):
            message = f"says of {' '.join(min(both))} what entry {i} says too ({claim_range(first)})"
            yield document.error((section, j), message, "give the two ranges that do not meet, or make them one")


def _subjects(claim: Mapping[str, Any]) -> set[tuple[str, ...]]:
    """Name what an entry of a list speaks of; two that share a name speak of the same."""
    if "flag" in claim:
        flags = (claim["flag"], *claim.get("aliases", ()))
        keys = [each["key"] for each in claim["keys"]] if "keys" in claim else [""]
        return {(flag, key) if key else (flag,) for flag in flags for key in keys}
    if "symptom" in claim:
        return {(claim["clause"], claim["symptom"])}
    if "match" in claim or "has" in claim:
        # without what it says of the record, the rest tells which record is meant
        return {(claim["stream"], repr(sorted(claim.get("match", {}).items())), claim.get("has", ""))}
    return {(claim["pattern"],)} if "pattern" in claim else {(tool,) for tool in claim.get("tools", ())}


def _covers(claim: Mapping[str, Any], version: str | None) -> bool:
    try:
        return claim_range(claim).covers(version)
    except ValueError:  # an executable of one's own may call itself anything
        return True
