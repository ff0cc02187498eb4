"""Claims as such: their evidence, their ranges, claims on one subject that overlap, and deviations."""

import re
from collections.abc import Iterator, Mapping
from itertools import combinations, pairwise
from typing import Any

from turngate.contract.load import ONE_OF, SECTIONS, Document, catalogue
from turngate.contract.versions import Claim, Path_, parse
from turngate.errors import ContractError, did_you_mean

_RECORDING = re.compile(r"(?P<engine>[a-z][a-z0-9-]*)/(?P<version>[^/]+)/(?:(?P<output>[^/]+)/)?(?P<turn>[^/]+)")
_EVIDENCE = ("clause", "recording", "observed")


def about(document: Document, clause_id: str, version: str | None) -> list[Path_]:
    """Return the claims about a release that a clause proves or excuses, else those of its own section."""
    valid = [claim for claim in document.claims() if _covers(claim, version)]
    named = [
        claim.path
        for claim in valid
        if clause_id in (claim.data.get("clause"), *(evidence.get("clause") for _, evidence in claim.all_evidence()))
    ]
    return named or [claim.path for claim in valid if claim.path[:1] == (clause_id.partition(".")[0],)]


def recordings_named(document: Document) -> Iterator[tuple[Path_, str]]:
    """Return the recordings used as evidence, as `engine/version[/output]/case-step`, with their paths."""
    for claim in document.claims():
        for place, evidence in claim.all_evidence():
            if "recording" in evidence:
                yield place, evidence["recording"]


def claim_errors(document: Document) -> Iterator[ContractError]:
    """Find useless evidence, ranges out of order, and entries of a section that overlap."""
    for path, entry in document.entries():
        yield from _order_errors(document, path, entry)
    for claim in document.claims():
        if "evidence" in claim.data and "unverified" in claim.data:
            yield document.error(claim.path, "has evidence but is marked unverified", "remove one of them")
        for place, evidence in claim.all_evidence():
            if wrong := _wrong_evidence(evidence, document.data["engine"]):
                yield document.error(place, *wrong)
    for section in SECTIONS:
        yield from _overlaps(document, section)


def deviation_errors(document: Document, deviation: Claim) -> Iterator[ContractError]:
    """Find a deviation from no clause, from one that is a baseline, or with a symptom that its clause does not have."""
    at, clause_id = deviation.at("clause"), deviation.data["clause"]
    clause = catalogue().get(clause_id)
    if clause is None:
        yield document.error(at, f"unknown clause {clause_id!r}", "see clauses.yaml")
    elif clause.baseline:
        yield document.error(at, f"{clause.id} is a baseline", "a release that violates it is broken")
    elif (symptom := deviation.data["symptom"]) not in clause.symptoms:
        words = ", ".join(clause.symptoms)
        hint = did_you_mean(symptom, clause.symptoms, f"its symptoms: {words}" if words else "it has no symptoms")
        yield document.error(deviation.at("symptom"), f"{clause.id} has no symptom {symptom!r}", hint)


def _order_errors(document: Document, path: Path_, entry: Mapping[str, Any]) -> Iterator[ContractError]:
    starts = [(("changes", i, "since"), change["since"]) for i, change in enumerate(entry.get("changes", ()))]
    edges = [(("since",), entry.get("since")), *starts, (("until",), entry.get("until"))]
    for (_, before), (at, version) in pairwise([edge for edge in edges if edge[1]]):
        if parse(before) >= parse(version):
            is_end = at == ("until",)
            hint = "`until` is the first release for which the claim no longer holds"
            hint = hint if is_end else "list changes in release order"
            yield document.error((*path, *at), f"{version} is not after {before}", hint)


def _wrong_evidence(evidence: Mapping[str, Any], engine: str) -> tuple[str, str] | None:
    kinds = [kind for kind in _EVIDENCE if kind in evidence]
    if len(kinds) != 1:
        return f"has {' and '.join(kinds) or 'no evidence'}", f"write one of {', '.join(_EVIDENCE)} in each entry"
    if "releases" in evidence and "observed" not in evidence:
        return f"`{kinds[0]}` evidence takes no `releases`", "only `observed` evidence takes `releases`"
    if "clause" in evidence and evidence["clause"] not in catalogue():
        hint = did_you_mean(evidence["clause"], catalogue(), "see clauses.yaml")
        return f"unknown clause {evidence['clause']!r}", hint
    if "recording" in evidence:
        named = _RECORDING.fullmatch(evidence["recording"])
        if not named or named["engine"] != engine:
            hint = f"write {engine}/<version>/<case>-<step>, with the name of another output mode before the case"
            return f"{evidence['recording']!r} isn't a recording of {engine}", hint
    return None


def _overlaps(document: Document, section: str) -> Iterator[ContractError]:
    hint = "give the entries of this section ranges that don't overlap"
    for first, second in combinations(document.claims(section), 2):
        if first.entry == second.entry or not first.range.overlaps(second.range):
            continue
        if section in ONE_OF:
            message = f"covers releases that entry {first.entry[1]} also covers ({first.range}; {second.range})"
            yield document.error(second.path, message, hint)
        elif both := _subjects(first.data) & _subjects(second.data):
            message = f"makes a claim about {' '.join(min(both))} as entry {first.entry[1]} does ({first.range})"
            yield document.error(second.path, message, f"{hint}, or merge them")


def _subjects(claim: Mapping[str, Any]) -> set[tuple[str, ...]]:
    """Return the subject of an entry of a list; entries with the same subject must not overlap."""
    if "flag" in claim:
        flags = (claim["flag"], *claim.get("aliases", ()))
        keys = [entry["key"] for entry in claim["keys"]] if "keys" in claim else [""]
        return {(flag, key) if key else (flag,) for flag in flags for key in keys}
    if "symptom" in claim:
        return {(claim["clause"], claim["symptom"])}
    if "name" in claim:
        return {(claim["name"],)}
    if "match" in claim or "has" in claim:
        # the remaining keys identify the record
        return {(claim["stream"], repr(sorted(claim.get("match", {}).items())), claim.get("has", ""))}
    return {(claim["pattern"],)} if "pattern" in claim else {(tool,) for tool in claim.get("tools", ())}


def _covers(claim: Claim, version: str | None) -> bool:
    try:
        return claim.range.covers(version)
    except ValueError:  # a user's own executable may report any version
        return True
