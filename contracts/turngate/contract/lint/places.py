"""Where an engine keeps things: the slots of its paths, and the variables that a turn gets."""

import re
from collections.abc import Iterator
from functools import reduce

from turngate.contract.load import Document
from turngate.contract.session_ids import names_in
from turngate.contract.versions import Claim, Path_
from turngate.errors import ContractError

_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH", re.IGNORECASE)
_IN_CHECKS = {"HOME", "handle", "cwd"}
# by section, the keys of the path that an engine reads or writes
_PATHS = {"resume_probe": ("directory",), "unsafe_settings": ("files",), "instruction_files": ("named_in", "file")}


def store_errors(document: Document, store: Claim) -> Iterator[ContractError]:
    """Find store slots without a value, and wildcards other than `*`."""
    known = {"HOME"}
    for name, default in store.data["locations"].items():
        yield from _unknown_slots(document, store.at("locations", name), default, known)
        known.add(name)
    for key in ("pattern", "file"):
        at, text = store.at("check", key), store.data["check"].get(key, "")
        yield from _unknown_slots(document, at, text, known | _IN_CHECKS)
        if re.search(r"[?\[\]]|\*\*", text):
            yield document.error(at, "has a wildcard other than *", "use only *")


def environment_errors(document: Document, environment: Claim) -> Iterator[ContractError]:
    """Find locations that may be secret, that are listed twice, or that a resume would lack."""
    locations = environment.data.get("locations", ())
    for j, name in enumerate(locations):
        at = environment.at("locations", j)
        if name in environment.data["pass"]:
            yield document.error(at, f"{name} is also listed under `pass`", "remove it from one of them")
        if _SECRET.search(name):
            hint = "locations are saved to disk; list it under `pass` instead"
            yield document.error(at, f"{name} may contain a secret", hint)
    for store in document.meeting("store", environment):
        for name in sorted({*store.data["locations"]} - {*locations, "HOME"}):
            hint = "declare it, so that a resume finds the session of the first turn"
            yield document.error(environment.at("locations"), f"{name} of `store` is missing", hint)


def path_errors(document: Document, claim: Claim) -> Iterator[ContractError]:
    """Find slots of the path in an entry of `_PATHS` that no release of the entry fills."""
    keys = _PATHS[str(claim.entry[0])]
    path = reduce(lambda data, key: data.get(key, {}), keys, claim.data) or ""
    yield from _unknown_slots(document, claim.at(*keys), str(path), _stored_places(document, claim))


def copied_settings_errors(document: Document, copied: Claim) -> Iterator[ContractError]:
    """Find slots that nothing fills, and variables that turns do not get or that may be secret."""
    places = _stored_places(document, copied)
    for i, file in enumerate(copied.data.get("files", ())):
        yield from _unknown_slots(document, copied.at("files", i, "file"), file["file"], places)
    for environment in document.meeting("environment", copied):
        for i, name in enumerate(copied.data.get("env", ())):
            if name not in environment.data["pass"]:
                what = f"{name} is not listed under `pass` of `environment`"
                yield document.error(copied.at("env", i), what, "turns don't get it, so the proof must not either")
            if _SECRET.search(name):
                yield document.error(copied.at("env", i), f"{name} may contain a secret", "leave it out")


def _stored_places(document: Document, claim: Claim) -> set[str]:
    """Return HOME and the variables of `store` that are declared for every release of a claim."""
    stores = [{*store.data["locations"]} for store in document.meeting("store", claim)]
    return {"HOME"} | (set.intersection(*stores) if stores else set())


def _unknown_slots(document: Document, at: Path_, text: str, known: set[str]) -> Iterator[ContractError]:
    for name in sorted(names_in(text) - known):
        yield document.error(at, f"unknown slot {{{name}}}", "known slots: " + ", ".join(sorted(known)))
