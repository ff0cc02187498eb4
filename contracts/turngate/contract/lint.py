"""Checks of a contract that a schema can't express: ranges, patterns, and names that must agree."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from turngate.argv.auto_flags import Flags, auto_flags_in
from turngate.contract.allowed_mistakes import interactive_errors
from turngate.contract.claims import claim_errors
from turngate.contract.command_mistakes import command_errors
from turngate.contract.load import OPTIONAL, SIMULATION, Document, catalogue, read, schema_errors
from turngate.contract.record_mistakes import record_errors
from turngate.contract.session_ids import names_in, numbered_like
from turngate.contract.sticky_mistakes import transport_errors
from turngate.contract.versions import Claim, Path_
from turngate.decoding import convert
from turngate.errors import ContractError, did_you_mean
from turngate.files import use_overlay

_LASTING = re.compile(r"always|session|amendment", re.IGNORECASE)
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH", re.IGNORECASE)
_IN_CHECKS = {"HOME", "handle", "cwd"}
_PLACES = {
    "start": {"{options}": 1, "{prompt}": 1, "{handle}": 0},
    "resume": {"{options}": 1, "{prompt}": 1, "{handle}": 1},
}
_WHAT = {"{options}": "the options", "{prompt}": "the prompt", "{handle}": "the session id"}
_Errors = Iterator[ContractError]


def problems(document: Document) -> _Errors:
    """Find every mistake in a contract or simulation: schema violations, and semantic errors in valid sections."""
    if not isinstance(document.data, dict):
        yield from schema_errors(document, "engine")
        return
    is_simulation = document.data.get("schema") == SIMULATION
    yield from _name_errors(document)
    wrong = list(schema_errors(document, "simulation" if is_simulation else "engine"))
    refused = {error.path[2:].partition(".")[0].partition("[")[0] for error in wrong}
    sound = {key: value for key, value in document.data.items() if key not in refused}
    told = set[str]()
    for error in (*wrong, *_meaning_errors(replace(document, data=sound), refused, is_simulation=is_simulation)):
        # a change is checked together with the values that it keeps
        if str(error) not in told:
            told.add(str(error))
            yield error


def lay_over(folder: Path) -> list[ContractError]:
    """Make the contracts in a folder override the packaged ones from now on; return their mistakes."""
    use_overlay(folder)
    mistakes = list[ContractError]()
    for file in sorted([*folder.glob("engines/*.yaml"), *folder.glob("simulations/*.yaml")]):
        try:
            mistakes += problems(read(file))
        except ContractError as unreadable:
            mistakes.append(unreadable)
    return mistakes


def _meaning_errors(document: Document, refused: set[str], *, is_simulation: bool) -> _Errors:
    """Find semantic errors; skip checks that need a section that is missing or was `refused`."""
    if is_simulation and refused:
        return
    if "engine" in document.data:
        yield from claim_errors(document)
    for check, section, *needed in _CHECKS:
        if all(key in document.data or (key in OPTIONAL and key not in refused) for key in needed):
            for claim in document.claims(section):
                yield from check(document, claim)


def _name_errors(document: Document) -> _Errors:
    """Find a file that is named after another engine, by which commands would not find it."""
    engine, name = document.data.get("engine"), Path(document.file)
    if isinstance(engine, str) and name.suffix == ".yaml" and name.stem != engine:
        message = f"the file is called {name.name}, but its engine is {engine}"
        yield document.error(("engine",), message, f"rename it to {engine}.yaml, or correct `engine`")


def _version_errors(document: Document, query: Claim) -> _Errors:
    if "version" not in re.compile(query.data["pattern"]).groupindex:
        yield document.error(query.at("pattern"), "has no group named `version`", r"such as (?P<version>\S+)")


def _deviation_errors(document: Document, deviation: Claim) -> _Errors:
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


def _flag_errors(document: Document, launch: Claim) -> _Errors:
    options = [option.data for option in document.claims("options")]
    flags = {flag for option in options for flag in (option["flag"], *option.get("aliases", ()))}
    for key in ("auto", "interactive", "model", "options"):
        for j, token in enumerate(launch.data.get(key, ())):
            if token.startswith("-") and token.partition("=")[0] not in flags:
                message = f"{token} isn't a declared option"
                yield document.error(launch.at(key, j), message, "declare it under `options`")


def _launch_errors(document: Document, launch: Claim) -> _Errors:
    """Find missing, repeated or misplaced slots, and flags that let an engine act without asking.

    A template without a slot would drop its value and could resume another session.
    """
    held = {key: [claim.data for claim in document.meeting(key, launch)] for key in ("auto_flags", "options")}
    flags = convert(held, Flags)
    for key, places in _PLACES.items():
        yield from _slot_errors(document, launch.at(key), launch.data[key], places)
        yield from _widening(document, launch.at(key), launch.data[key], flags)
    for j, channel in enumerate(launch.data["prompt"]):
        at, text = launch.at("prompt", j, "tokens"), {"{text}": int(channel["via"] == "argument")}
        yield from _slot_errors(document, at, channel["tokens"], text)
        yield from _widening(document, at, [token for token in channel["tokens"] if "{text}" not in token], flags)
    yield from _widening(document, launch.at("interactive"), launch.data.get("interactive", ()), flags)


def _guard_errors(document: Document, guards: Claim) -> _Errors:
    held = {key: [claim.data for claim in document.meeting(key, guards)] for key in ("auto_flags", "options")}
    yield from _widening(document, guards.at("options"), guards.data.get("options", ()), convert(held, Flags))


def _slot_errors(document: Document, at: Path_, tokens: Sequence[str], wanted: Mapping[str, int]) -> _Errors:
    for slot, count in wanted.items():
        places = [i for i, token in enumerate(tokens) if slot in token]
        what = _WHAT.get(slot, "the prompt")
        if len(places) < count:
            yield document.error(at, f"has no slot for {what}", f"add {slot} where it belongs")
        elif len(places) > count:
            message = f"has more than one slot for {what}" if count else f"can't hold {what}"
            yield document.error((*at, places[count]), message, f"remove {slot}")


def _widening(document: Document, at: Path_, tokens: Sequence[str], flags: Flags) -> _Errors:
    """Find flags that would widen approval in mode interactive."""
    for flag in auto_flags_in(tokens, flags):
        message = f"{flag} lets the engine act without asking, and would be passed in mode interactive"
        yield document.error(at, message, "pass it only under `auto`")


def _handle_errors(document: Document, handle: Claim) -> _Errors:
    shape, nonexistent = handle.data["shape"], handle.data["nonexistent_id"]
    numbered = numbered_like(nonexistent, 1)
    if not re.fullmatch(shape, nonexistent):
        message = "does not have the shape of a session id"
        yield document.error(handle.at("nonexistent_id"), message, f"the shape is {shape}")
    if numbered is None or not re.fullmatch(shape, numbered):
        hint = "recordings write a number into its last run of at least six zeros"
        yield document.error(handle.at("nonexistent_id"), "has no room for a number", hint)
    if re.fullmatch(shape, "--x"):
        hint = "make it start with a letter or digit, such as [0-9a-f]{8}"
        yield document.error(handle.at("shape"), "matches values that look like flags", hint)


def _sticky_errors(document: Document, sticky: Claim) -> _Errors:
    """Find options that are undeclared or have no slot, and answers that grant more than one action."""
    flags = {option.data["flag"] for option in document.claims("options")}
    for j, flag in enumerate(sticky.data.get("options", ())):
        if flag not in flags:
            message = f"{flag} isn't a declared option"
            yield document.error(sticky.at("options", j), message, "declare it under `options`")
    modes = [sticky.data, *(sticky.data.get(mode, {}) for mode in ("interactive", "auto", "warm"))]
    if any(mode.get("options") for mode in modes) and "{options}" not in sticky.data.get("argv", ()):
        yield document.error(sticky.at("argv"), "has no slot for options", "add {options} where they belong")
    yield from command_errors(document, sticky)
    for key, word in sticky.data.get("one_time", {}).items():
        if _LASTING.search(word):
            hint = "use the word that covers only one action"
            yield document.error(sticky.at("one_time", key), f"{word} covers more than one action", hint)


def _store_errors(document: Document, store: Claim) -> _Errors:
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


def _environment_errors(document: Document, environment: Claim) -> _Errors:
    locations = environment.data["locations"]
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


def _resume_probe_errors(document: Document, probe: Claim) -> _Errors:
    known = _stored_places(document, probe)
    yield from _unknown_slots(document, probe.at("directory"), probe.data.get("directory", ""), known)


def _unsafe_setting_errors(document: Document, setting: Claim) -> _Errors:
    yield from _unknown_slots(document, setting.at("files"), setting.data["files"], _stored_places(document, setting))


def _stored_places(document: Document, claim: Claim) -> set[str]:
    """Return HOME and the variables of `store` that are declared for every release of a claim."""
    stores = [{*store.data["locations"]} for store in document.meeting("store", claim)]
    return {"HOME"} | (set.intersection(*stores) if stores else set())


def _unknown_slots(document: Document, at: Path_, text: str, known: set[str]) -> _Errors:
    for name in sorted(names_in(text) - known):
        yield document.error(at, f"unknown slot {{{name}}}", "known slots: " + ", ".join(sorted(known)))


# a check, the section that it reports on, then those that it needs
_CHECKS: tuple[tuple[Callable[[Document, Claim], _Errors], str, *tuple[str, ...]], ...] = (
    (_deviation_errors, "deviations"),
    (_version_errors, "version"),
    (_flag_errors, "launch", "options"),
    (_flag_errors, "guards", "options"),
    (_guard_errors, "guards", "auto_flags", "options"),
    (interactive_errors, "options", "auto_flags"),
    (_launch_errors, "launch", "options", "auto_flags"),
    (_handle_errors, "handle"),
    *((record_errors, section, "streams") for section in ("events", "handle", "end", "failures", "final")),
    (_sticky_errors, "sticky", "options"),
    (transport_errors, "sticky", "launch"),
    (_store_errors, "store"),
    (_environment_errors, "environment", "store"),
    (_resume_probe_errors, "resume_probe", "store"),
    (_unsafe_setting_errors, "unsafe_settings", "store"),
)
