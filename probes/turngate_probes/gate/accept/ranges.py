"""From what a gate showed to the ranges of a contract: which claims end, begin or are added. Pure."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from turngate.contract import lint, load
from turngate.contract.load import Document, Path_, claim_range
from turngate.contract.versions import parse
from turngate.errors import ContractError
from turngate_probes.gate.accept import edit

STALE = re.compile(r"stale: the declared deviation (\S+) did not occur")
SYMPTOMS = re.compile(r" \[([a-z0-9-]+(?:, [a-z0-9-]+)*)\]\Z")
TO_BE_WRITTEN = "(to be written by a person before this is committed)"

Clauses = Mapping[str, Mapping[str, Any]]


class RangeChange(Struct, frozen=True):
    """A change of the text, in words and as a function; `edit` None: it can't be written into a contract."""

    what: str
    edit: Callable[[str], str] | None


class Rewritten(Struct, frozen=True):
    """The new text, what was changed in it, and what a person must do otherwise."""

    text: str
    done: tuple[str, ...]
    left: tuple[str, ...]


def rewrite(text: str, report: Mapping[str, Any], compensations: Mapping[tuple[str, str], str]) -> Rewritten:
    """Write what a gate showed into a contract; ContractError if the outcome would not be a valid one.

    `compensations` are what contracts ask for by clause and symptom, for deviations that are new here.
    """
    done, left = list[str](), list[str]()
    for change in _changes(text, report, compensations):
        try:
            text = change.edit(text) if change.edit else text
        except ValueError as unusual:
            left.append(f"{change.what} ({unusual})")
            continue
        (done if change.edit else left).append(change.what)
    document = edit.parsed(text)
    for error in lint.problems(document):
        raise ContractError(f"the change would not be valid: {error}", hint="change the contract by hand")
    return Rewritten(text, tuple(done), tuple(left))


def _changes(
    text: str, report: Mapping[str, Any], compensations: Mapping[tuple[str, str], str]
) -> Iterator[RangeChange]:
    old, new = report["probe"]["releases"]
    names = (old["release"].removesuffix(" (new)"), str(old["version"]), str(new["version"]))
    was, now = ({each["id"]: each for each in release["clauses"]} for release in (old, new))
    yield from _gone_deviations(text, was, now, names)
    yield from _new_deviations(was, now, names, compensations)
    yield from _options(text, report["differences"], names)
    yield from _events(text, report["differences"], names)


def _gone_deviations(text: str, was: Clauses, now: Clauses, names: tuple[str, ...]) -> Iterator[RangeChange]:
    """End deviations that the older release shows and the newer one does not."""
    document, (_, older, newer) = edit.parsed(text), names
    for clause_id, clause in now.items():
        before = set(STALE.findall(was.get(clause_id, {}).get("detail", "")))
        for symptom in sorted(set(STALE.findall(clause["detail"]) if clause["stale"] else ()) - before):
            claim = _claim(document, "deviations", newer, clause=clause_id, symptom=symptom)
            observed = f"{older} deviates, {newer} does not"
            yield _closing(claim, document, newer, observed, f"deviations: {clause_id} {symptom} ends before {newer}")


def _new_deviations(
    was: Clauses, now: Clauses, names: tuple[str, ...], compensations: Mapping[tuple[str, str], str]
) -> Iterator[RangeChange]:
    """Add a deviation for each symptom that only the newer release shows."""
    _, older, newer = names
    for clause_id, clause in now.items():
        if clause["result"] != "fail" or was.get(clause_id, {}).get("result") == "fail":
            continue
        found = SYMPTOMS.search(clause["detail"])
        known = next((each for each in load.catalogue().clauses if each.id == clause_id), None)
        if not found or not known or known.baseline:
            yield RangeChange(f"{clause_id} fails, and no range can say so: {clause['detail']}", None)
            continue
        for symptom in found[1].split(", "):
            fields = (
                ("clause", clause_id), ("since", newer), ("symptom", symptom),
                ("compensation", compensations.get((clause_id, symptom), TO_BE_WRITTEN)),
                ("evidence", [{"observed": _seen(clause, older, newer)}]),
            )  # fmt: skip
            yield RangeChange(f"deviations: {clause_id} {symptom} begins with {newer}", _adding(fields))


def _seen(clause: Mapping[str, Any], older: str, newer: str) -> str:
    together = clause["level"] == "gate"
    return f"{older} and {newer} on one home" if together else f"{older} does not deviate, {newer} does"


def _options(text: str, differences: Iterable[Mapping[str, Any]], names: tuple[str, ...]) -> Iterator[RangeChange]:
    """End options, and names on help pages, that no page names any more."""
    document, (_, older, newer) = edit.parsed(text), names
    gone = [each["subject"] for each in differences if each["kind"] == "option" and each["after"] is None]
    observed = f"the help of {older} names {{}}, that of {newer} does not"
    for name in gone:
        claim = _claim(document, "options", newer, flag=name)
        if claim:
            yield _closing(claim, document, newer, observed.format(name), f"options: {name} ends before {newer}")
    pages = _claim(document, "help", newer)
    listed = {str(n) for page in document.data["help"][pages[1]]["pages"] for n in page["names"]} if pages else set()
    if pages and (missing := sorted(listed & set(gone))):
        told = observed.format(", ".join(missing))
        what = f"help: {', '.join(missing)} not looked for from {newer} on"
        yield RangeChange(what, _splitting_help(pages, newer, told, missing))


def _events(text: str, differences: Iterable[Mapping[str, Any]], names: tuple[str, ...]) -> Iterator[RangeChange]:
    """Add kinds of records that are new to the list of those that are known; it promises none, so it has no range."""
    document, (_, _, newer) = edit.parsed(text), names
    claim = _claim(document, "events", newer)
    known = document.data["events"][claim[1]]["names"] if claim else ()
    for each in differences:
        if claim and each["kind"] == "event" and each["before"] is None and each["after"] not in known:
            where = (*claim, "names")
            yield RangeChange(f"events: {each['after']} is known", _adding_item(where, str(each["after"])))


def _closing(claim: Path_ | None, document: Document, version: str, observed: str, what: str) -> RangeChange:
    since = document.data[claim[0]][claim[1]].get("since") if claim else None
    if claim is None or (since and parse(since) >= parse(version)):
        return RangeChange(f"{what}: its claim begins there, or is not found", None)
    return RangeChange(what, lambda text: edit.close(text, _again(text, document, claim), version, observed))


def _again(text: str, document: Document, claim: Path_) -> Path_:
    """Find a claim in a text in which others may have been added or cut in two."""
    wanted = document.data[claim[0]][claim[1]]
    listed = edit.parsed(text).data[claim[0]]
    return next(((claim[0], i) for i, each in enumerate(listed) if each == wanted), claim)


def _adding(fields: tuple[tuple[str, object], ...]) -> Callable[[str], str]:
    return lambda text: edit.add_claim(text, "deviations", fields)


def _adding_item(where: Path_, word: str) -> Callable[[str], str]:
    return lambda text: edit.add_item(text, where, word)


def _splitting_help(claim: Path_, version: str, observed: str, missing: list[str]) -> Callable[[str], str]:
    def change(text: str) -> str:
        text = edit.split(text, claim, version, observed)
        for name in missing:
            second = ("help", int(claim[1]) + 1)
            pages = edit.parsed(text).data["help"][second[1]]["pages"]
            for i, page in enumerate(pages):
                if name in page["names"]:
                    text = edit.remove_item(text, (*second, "pages", i, "names", page["names"].index(name)))
        return text

    return change


def _claim(document: Document, section: str, version: str, **wanted: str) -> Path_ | None:
    for i, claim in enumerate(document.data.get(section, ())):
        if claim_range(claim).covers(version) and all(claim.get(key) == value for key, value in wanted.items()):
            return section, i
    return None
