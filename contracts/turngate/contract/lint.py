"""What a schema can't say of a contract: ranges, patterns, and names that must agree."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from turngate.contract.claims import claim_errors, claims, evidence_errors
from turngate.contract.clauses import Catalogue
from turngate.contract.launch_lint import launch_errors
from turngate.contract.load import (
    ALL_OF,
    ONE_OF,
    OPTIONAL,
    Document,
    Path_,
    beside,
    catalogue,
    claim_range,
    read,
    schema_errors,
)
from turngate.contract.session_ids import names_in, numbered_like
from turngate.contract.versions import parse
from turngate.errors import ContractError
from turngate.files import use_overlay

_LASTING = re.compile(r"always|session|amendment", re.IGNORECASE)
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH", re.IGNORECASE)
SIMULATION = "turngate.simulation/1"
_IN_CHECKS = {"HOME", "handle", "cwd"}


def problems(document: Document) -> Iterator[ContractError]:
    """Find every mistake in a contract: what its schema refuses, and what the sections that it accepts mean."""
    if isinstance(document.data, dict) and document.data.get("schema") == SIMULATION:
        yield from _simulation_errors(document)
        return
    wrong = list(schema_errors(document, "engine"))
    yield from wrong
    if isinstance(document.data, dict):
        refused = {error.path[2:].partition(".")[0].partition("[")[0] for error in wrong}
        sound = {key: value for key, value in document.data.items() if key not in refused}
        yield from meaning_errors(replace(document, data=sound), catalogue(), refused)


def _simulation_errors(document: Document) -> Iterator[ContractError]:
    wrong = list(schema_errors(document, "simulation"))
    yield from wrong or evidence_errors(document, claims(document), catalogue())
    if not wrong:
        for path, claim in claims(document):
            yield from _evidence_or_doubt(document, path, claim)
        yield from _order_errors(document)


def _order_errors(document: Document) -> Iterator[ContractError]:
    """Changes stand in the order of the releases that they begin with."""
    marks = [document.data.get("since"), *(change["since"] for change in document.data.get("changes", ()))]
    for i, (before, since) in enumerate(pairwise(marks)):
        if before and parse(before) >= parse(since):
            message, hint = f"{since} is not after {before}", "write changes in the order of their releases"
            yield document.error(("changes", i, "since"), message, hint)


def lay_over(folder: Path) -> list[ContractError]:
    """Use the contracts in a folder before the packaged ones, from now on; return their mistakes."""
    use_overlay(folder)
    found = list[ContractError]()
    for file in sorted([*folder.glob("engines/*.yaml"), *folder.glob("simulations/*.yaml")]):
        try:
            found += problems(read(file))
        except ContractError as unreadable:
            found.append(unreadable)
    return found


def meaning_errors(document: Document, clauses: Catalogue, refused: Collection[str] = ()) -> Iterator[ContractError]:
    """Find mistakes that no schema shows, without the checks that need a section which is missing or was `refused`."""
    for section in (*ONE_OF, *ALL_OF):
        yield from _claim_errors(document, section)
    yield from _deviation_errors(document, clauses)
    for check, needed in _CHECKS.items():
        if all(each in document.data or (each in OPTIONAL and each not in refused) for each in needed):
            yield from check(document)
    if "engine" in document.data:
        yield from claim_errors(document, clauses)


def _claim_errors(document: Document, section: str) -> Iterator[ContractError]:
    claims = document.data.get(section, ())
    for i, claim in enumerate(claims):
        since, until = claim.get("since"), claim.get("until")
        if since and until and not claim_range(claim).covers(since):
            hint = "`until` is the first release that the claim no longer holds for"
            yield document.error((section, i, "until"), f"{until} is not after {since}", hint)
        yield from _evidence_or_doubt(document, (section, i), claim)
    if section in ONE_OF:
        yield from _overlaps(document, section, claims)


def _evidence_or_doubt(document: Document, path: Path_, claim: Mapping[str, Any]) -> Iterator[ContractError]:
    if ("evidence" in claim) == ("unverified" in claim):
        message = "has evidence, and is unverified" if "evidence" in claim else "has no evidence"
        yield document.error(path, message, "give `evidence`, or say `unverified: true`")


def _overlaps(document: Document, section: str, claims: list[dict[str, Any]]) -> Iterator[ContractError]:
    for (i, first), (j, second) in combinations(enumerate(claims), 2):
        if claim_range(first).overlaps(claim_range(second)):
            message = f"covers releases that entry {i} covers too ({claim_range(first)}; {claim_range(second)})"
            yield document.error((section, j), message, "give the entries of this section ranges that do not meet")


def _version_errors(document: Document) -> Iterator[ContractError]:
    for i, query in enumerate(document.data["version"]):
        if "version" not in re.compile(query["pattern"]).groupindex:
            yield document.error(("version", i, "pattern"), "names no group `version`", r"such as (?P<version>\S+)")


def _deviation_errors(document: Document, clauses: Catalogue) -> Iterator[ContractError]:
    known = {clause.id: clause for clause in clauses.clauses}
    for i, deviation in enumerate(document.data.get("deviations", [])):
        clause = known.get(deviation["clause"])
        if clause is None:
            yield document.error(("deviations", i, "clause"), f"no clause {deviation['clause']!r}", "see clauses.yaml")
        elif clause.baseline:
            yield document.error(
                ("deviations", i, "clause"),
                f"{clause.id} is a baseline",
                "a release that misses it is broken",
            )


def _flag_errors(document: Document) -> Iterator[ContractError]:
    flags = {f for option in document.data["options"] for f in (option["flag"], *option.get("aliases", ()))}
    for i, launch in enumerate(document.data["launch"]):
        for key in ("auto", "interactive", "model"):
            for j, token in enumerate(launch.get(key, ())):
                if token.startswith("-") and token.partition("=")[0] not in flags:
                    hint = "declare it under `options`"
                    yield document.error(("launch", i, key, j), f"{token} is no declared option", hint)


def _handle_errors(document: Document) -> Iterator[ContractError]:
    for i, handle in enumerate(document.data["handle"]):
        if not re.fullmatch(handle["shape"], handle["nonexistent_id"]):
            hint = f"the shape is {handle['shape']}"
            yield document.error(("handle", i, "nonexistent_id"), "does not have the shape of a session id", hint)
        numbered = numbered_like(handle["nonexistent_id"], 1)
        if numbered is None or not re.fullmatch(handle["shape"], numbered):
            hint = "recordings number session ids in its last run of at least six zeros"
            yield document.error(("handle", i, "nonexistent_id"), "no number can stand in it", hint)
        if re.fullmatch(handle["shape"], "--x"):
            hint = "have it begin with a letter or digit, such as [0-9a-f]{8}"
            yield document.error(("handle", i, "shape"), "admits a value that looks like a flag", hint)


def _sticky_errors(document: Document) -> Iterator[ContractError]:
    """Find options that nobody declared or placed, and words that grant more than one action."""
    flags = {option["flag"] for option in document.data["options"]}
    for i, kept in enumerate(document.data["sticky"]):
        for j, flag in enumerate(kept.get("options", ())):
            if flag not in flags:
                hint = "declare it under `options`"
                yield document.error(("sticky", i, "options", j), f"{flag} is no declared option", hint)
        stances = [kept.get(mode, {}) for mode in ("interactive", "auto")]
        if any(each.get("options") for each in (kept, *stances)) and "{options}" not in kept.get("argv", ()):
            yield document.error(("sticky", i, "argv"), "has no place for options", "put {options} where they stand")
        for key, word in kept.get("one_time", {}).items():
            if _LASTING.search(word):
                hint = "name the word that is for one action alone"
                yield document.error(("sticky", i, "one_time", key), f"{word} lasts for more than one action", hint)


def _store_errors(document: Document) -> Iterator[ContractError]:
    """Every slot of a store stands for something, and of wildcards there is but `*`."""
    for i, store in enumerate(document.data.get("store", [])):
        known = {"HOME"}
        for name, default in store["locations"].items():
            yield from _unknown_slots(document, ("store", i, "locations", name), default, known)
            known.add(name)
        for key in ("pattern", "file"):
            text = store["check"].get(key, "")
            yield from _unknown_slots(document, ("store", i, "check", key), text, known | _IN_CHECKS)
            if re.search(r"[?\[\]]|\*\*", text):
                yield document.error(("store", i, "check", key), "holds another wildcard than *", "write * alone")


def _environment_errors(document: Document) -> Iterator[ContractError]:
    for i, environment in enumerate(document.data["environment"]):
        for j, name in enumerate(environment["locations"]):
            at = ("environment", i, "locations", j)
            if name in environment["pass"]:
                yield document.error(at, f"{name} is passed too", "what is kept comes from the first turn alone")
            if _SECRET.search(name):
                yield document.error(at, f"{name} may hold a secret", "locations are written down; pass it instead")
        for store in beside(document, "store", environment):
            for name in sorted({*store["locations"]} - {*environment["locations"], "HOME"}):
                hint = "declare it, so that a resume finds what the first turn wrote"
                yield document.error(("environment", i, "locations"), f"{name} of `store` is missing", hint)


def _resume_probe_errors(document: Document) -> Iterator[ContractError]:
    for i, probe in enumerate(document.data["resume_probe"]):
        # known must be at every release that the claim holds for
        told = [{*store["locations"]} for store in beside(document, "store", probe)]
        known = {"HOME"} | (set.intersection(*told) if told else set())
        yield from _unknown_slots(document, ("resume_probe", i, "directory"), probe.get("directory", ""), known)


def _unknown_slots(
    document: Document, at: tuple[str | int, ...], text: str, known: set[str]
) -> Iterator[ContractError]:
    for name in sorted(names_in(text) - known):
        yield document.error(at, f"nothing is known of {{{name}}}", "there are: " + ", ".join(sorted(known)))


_CHECKS: Mapping[Callable[[Document], Iterator[ContractError]], tuple[str, ...]] = {
    _version_errors: ("version",),
    _flag_errors: ("options", "launch"),
    launch_errors: ("launch", "options", "auto_flags"),
    _handle_errors: ("handle",),
    _sticky_errors: ("sticky", "options"),
    _store_errors: ("store",),
    _environment_errors: ("environment", "store"),
    _resume_probe_errors: ("resume_probe", "store"),
}
