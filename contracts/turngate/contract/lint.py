"""Checks of a contract that a schema can't express: ranges, patterns, evidence, and names that must agree.

They cover the evidence for each claim, that claims on one subject don't overlap, what callers may pass in mode
interactive, rules about records, how a sticky process is run, and the commands of the transport json_commands.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from turngate.argv.auto_flags import Flags, auto_flags_in
from turngate.contract.load import (
    NONE,
    ONE_OF,
    OPTIONAL,
    SECTIONS,
    SIMULATION,
    Document,
    catalogue,
    read,
    schema_errors,
)
from turngate.contract.session_ids import names_in, numbered_like
from turngate.contract.versions import Basis, Claim, Path_, dotted, parse
from turngate.decoding import convert
from turngate.errors import ContractError, did_you_mean
from turngate.files import use_overlay

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
        if ("evidence" in claim.data) == ("unverified" in claim.data):
            message = "has evidence but is marked unverified" if claim.evidence else "has no evidence"
            yield document.error(claim.path, message, "add `evidence` or `unverified: true`")
        for place, evidence in claim.all_evidence():
            if wrong := _wrong_evidence(evidence, document.data["engine"]):
                yield document.error(place, *wrong)
    for section in SECTIONS:
        yield from _overlaps(document, section)


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


IS_GAP = "is a gap"
_KINDS = ("values", "pattern", "path", "keys")


def interactive_errors(document: Document, option: Claim) -> Iterator[ContractError]:
    """Find allowed uses that do not fit the option's value, or that let the engine act without asking."""
    use = option.data.get("interactive")
    if use is None:
        return
    at, kinds = option.at("interactive"), [kind for kind in _KINDS if kind in use]
    if option.data["value"] == "none":
        if kinds:
            yield document.error((*at, kinds[0]), "a switch takes no value", f"remove `{kinds[0]}`")
    elif len(kinds) != 1:
        message = f"has {' and '.join(kinds)}" if kinds else "does not say which values are allowed"
        yield document.error(at, message, f"write one of {', '.join(_KINDS)}")
    flags = convert(
        {key: [claim.data for claim in document.meeting(key, option)] for key in ("auto_flags", "options")}, Flags
    )
    names = {name for flag in flags.auto_flags for name in (flag.flag, *flag.aliases)}
    for place, value in _samples(use):
        for name in (option.data["flag"], *option.data.get("aliases", ())):
            if value is None and name in names and "keys" not in use:
                message = f"{name} can let the engine act without asking"
                yield document.error(at, message, "list the safe values under `values`, or remove `interactive`")
            elif value is not None and auto_flags_in((name, value), flags):
                message = f"{name} {value} lets the engine act without asking"
                yield document.error((*at, *place), message, "remove it")


def _samples(use: Mapping[str, Any]) -> Iterator[tuple[Path_, str | None]]:
    """Return each allowed value with its path; None where any value of some shape is allowed."""
    for j, key in enumerate(use.get("keys", ())):
        for k, value in enumerate(key.get("values", ("any",))):
            place = ("values", k) if "values" in key else ("pattern",)
            yield ("keys", j, *place), f"{key['key']}={value}"
    for k, value in enumerate(use.get("values", ())):
        yield ("values", k), value
    if not {"keys", "values"} & use.keys():
        yield (), None


_PROMPT = "{text}"


def command_errors(document: Document, sticky: Claim) -> Iterator[ContractError]:
    """Find commands without the prompt or with an id of their own, and questions and files that nothing uses."""
    yield from _file_errors(document, sticky)
    if (commands := sticky.data.get("commands")) is None:
        return
    sent = {"prompt": commands["prompt"], "abort": commands["abort"], "session": commands["session"]["command"]}
    for name, command in sent.items():
        at = sticky.at("commands", *(("session", "command") if name == "session" else (name,)))
        if commands["id"] in command:
            hint = "remove it: each command gets its own"
            yield document.error((*at, commands["id"]), "a command can't have a fixed id", hint)
        if _slots(command) != (name == "prompt"):
            what = "has no slot for the prompt" if name == "prompt" else "can't hold the prompt"
            hint = "write {text} as the whole value" if name == "prompt" else "remove {text}"
            yield document.error(at, what, hint)
    for events in document.meeting("events", sticky):
        kind = commands["ended"].get(events.data.get("field"))
        if kind is not None and kind not in events.data["names"]:
            at = sticky.at("commands", "ended")
            yield document.error(at, f"{kind} isn't a known event", "add it to the names of `events`")
    asks, questions = sticky.data.get("permission_requests"), commands.get("questions")
    if asks and questions is None:
        hint = "say under `questions` how the engine asks"
        yield document.error(sticky.at("permission_requests"), "the commands define no questions", hint)


def _file_errors(document: Document, sticky: Claim) -> Iterator[ContractError]:
    """Find files that nothing uses, and options and variables that use none, though `guards` may have some."""
    guarded = any("files" in guards.data for guards in document.meeting("guards", sticky))
    for mode in ("interactive", "auto"):
        approval = sticky.data.get(mode, {})
        texts = {"options": approval.get("options", ()), "env": approval.get("env", {}).values()}
        using = [key for key, values in texts.items() if any("{files}" in text for text in values)]
        if using and not approval.get("files") and not guarded:
            yield document.error(
                sticky.at(mode, using[0]), "{files} is empty", "list the files under `files`, here or in `guards`"
            )
        if approval.get("files") and not using:
            hint = "name their folder as {files} in `options` or `env`"
            yield document.error(sticky.at(mode, "files"), "nothing uses these files", hint)


def _slots(template: Any) -> int:
    """Count the places for the prompt in a command."""
    if isinstance(template, Mapping):
        return sum(map(_slots, template.values()))
    if isinstance(template, list):
        return sum(map(_slots, template))
    return int(template == _PROMPT)


_ONLY_RECORDS = ("match", "field", "group", "begins_after")


def record_errors(document: Document, claim: Claim) -> Iterator[ContractError]:
    """Find rules that no record can meet, in a claim of `events`, `handle`, `end`, `failures` or `final`."""
    streams = [streams.data for streams in document.meeting("streams", claim)]
    yield from _rule_errors(document, claim.at, claim.data, str(claim.entry[0]), streams)


def _rule_errors(
    document: Document,
    at: Callable[..., Path_],
    rule: Mapping[str, Any],
    section: str,
    streams: list[Mapping[str, Any]],
) -> Iterator[ContractError]:
    """Find a rule of a section that no record can meet with any of these framings."""
    stream = rule["stream"]
    framed = [one[stream] for one in streams]
    is_text = [one["framing"] == "text" for one in framed]
    if section == "final":
        yield from _answer_errors(document, at, rule, is_text)
    elif is_text and all(is_text) and not any("records" in one for one in framed):
        message = f"{stream} is framed as text, so it has no records"
        yield document.error(at("stream"), message, "name the stream with the records, or correct `streams`")


def _answer_errors(
    document: Document, at: Callable[..., Path_], final: Mapping[str, Any], is_text: list[bool]
) -> Iterator[ContractError]:
    stream = final["stream"]
    if is_text and all(is_text):
        for key in _ONLY_RECORDS:
            if key in final:
                message = f"{stream} is framed as text, so all of it is the answer"
                yield document.error(at(key), message, f"remove `{key}`, or correct `streams`")
    elif is_text and not any(is_text) and "field" not in final:
        yield document.error(at(), f"names no field of the records on {stream}", "add the path of the answer")


def output_errors(document: Document, mode: Claim) -> Iterator[ContractError]:
    """Find an output mode whose arguments don't fit the templates, and rules of it that no record can meet."""
    replaces = mode.data["replaces"]
    for launch in document.meeting("launch", mode):
        if launch.data.get("output", "") in ("", mode.data["name"]):
            hint = "name the output mode that `start` and `resume` choose under `launch.output`"
            yield document.error(mode.at("name"), "the default output mode has no other name", hint)
        for key in ("start", "resume"):
            tokens, size = launch.data[key], len(replaces)
            if not any(tokens[i : i + size] == replaces for i in range(len(tokens))):
                message = f"`launch.{key}` doesn't have {' '.join(replaces)}"
                yield document.error(mode.at("replaces"), message, "write the arguments that it has, in their order")
    held = {key: [claim.data for claim in document.meeting(key, mode)] for key in ("auto_flags", "options")}
    yield from _auto_approving(document, mode.at("arguments"), mode.data["arguments"], convert(held, Flags))
    for section in ("streams", "events", "end", "final"):
        for key in mode.data[section].keys() & {*Basis.__struct_fields__, "changes"}:
            yield document.error(mode.at(section, key), f"`{key}` belongs to the whole output mode", "move it there")
    rules: list[tuple[Path_, Mapping[str, Any]]]
    rules = [((section,), mode.data[section]) for section in ("events", "handle", "end", "final")]
    rules += [(("failures", i), sign) for i, sign in enumerate(mode.data.get("failures", ()))]
    for place, rule in rules:
        yield from _rule_errors(document, partial(mode.at, *place), rule, str(place[0]), [mode.data["streams"]])


# the keys of `interactive`, `auto` and `warm` that only some transports send or confirm
_MODE_KEYS = {
    "session": ("app_server",),
    "expect": ("app_server",),
    "turn": ("app_server",),
    "mode": ("acp", "stream_json"),
}
# the keys that nothing reads without a transport
_OF_A_PROCESS = (
    "argv",
    "options",
    "interactive",
    "auto",
    "warm",
    "loads_headless_sessions",
    "permission_requests",
    "one_time",
)
# the transports that can check whether a process still answers, and can load a session
WARM_TRANSPORTS = ("acp", "app_server")


def transport_errors(document: Document, sticky: Claim) -> Iterator[ContractError]:
    """Find a transport that can't start, that can't set what the contract asks for, or that nothing uses."""
    transport = sticky.data["transport"]
    if transport == "none":
        for key in _OF_A_PROCESS:
            if key in sticky.data:
                message = "is never used without a transport"
                yield document.error(sticky.at(key), message, f"name the transport, or remove `{key}`", of_key=True)
        return
    if "argv" not in sticky.data:
        yield document.error(sticky.at(), f"{transport} has no `argv`", "add the arguments that start the process")
    yield from _mode_errors(document, sticky, transport)
    yield from _model_errors(document, sticky, transport)
    yield from _warm_errors(document, sticky, transport)


def _mode_errors(document: Document, sticky: Claim, transport: str) -> Iterator[ContractError]:
    for mode in ("interactive", "auto", "warm"):
        for key in sticky.data.get(mode, {}):
            if transport not in _MODE_KEYS.get(key, (transport,)):
                hint = f"only {' and '.join(_MODE_KEYS[key])} can: remove `{key}`"
                yield document.error(sticky.at(mode, key), f"{transport} can't use `{key}`", hint, of_key=True)


def _model_errors(document: Document, sticky: Claim, transport: str) -> Iterator[ContractError]:
    by = sticky.data.get("model", "argument")
    takes_options = "{options}" in sticky.data.get("argv", ())
    if by == "session" and transport in ("stream_json", "json_commands"):
        yield document.error(sticky.at("model"), f"{transport} chooses no model by request", "write `argument`")
    if by == "argument" and not takes_options and any(c.data["model"] for c in document.meeting("launch", sticky)):
        yield document.error(sticky.at("argv"), "has no slot for the model's option", "add {options} where it belongs")


def _warm_errors(document: Document, sticky: Claim, transport: str) -> Iterator[ContractError]:
    """Find a kept process whose death could go unnoticed, and one whose sessions headless turns may not find."""
    data = sticky.data
    if "warm" not in data:
        if data.get("loads_headless_sessions"):
            hint = "describe the process under `warm`, or remove `loads_headless_sessions`"
            yield document.error(
                sticky.at("loads_headless_sessions"), "is never used without `warm`", hint, of_key=True
            )
        return
    if transport not in WARM_TRANSPORTS:
        message = f"{transport} can't check whether a kept process still answers"
        yield document.error(
            sticky.at("warm"), message, f"only {' and '.join(WARM_TRANSPORTS)} can: remove `warm`", of_key=True
        )
    if data.get("private_store"):
        message = "can't work if the process stores its sessions elsewhere"
        yield document.error(sticky.at("warm"), message, "correct `private_store`, or remove `warm`", of_key=True)
    if "unverified" in data:
        hint = "give it a change with evidence, or remove `warm`"
        yield document.error(sticky.at("warm"), "is claimed without proof", hint, of_key=True)


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
    gaps = document.gaps()
    yield from (document.error(path, IS_GAP, "the comment above its section says how to find out") for path in gaps)
    open_paths = tuple(map(dotted, gaps))
    wrong = [
        e for e in schema_errors(document, "simulation" if is_simulation else "engine") if e.path not in open_paths
    ]
    refused = {path[2:].partition(".")[0].partition("[")[0] for path in (*open_paths, *(e.path for e in wrong))}
    sound = {key: value for key, value in document.data.items() if key not in refused}
    reported = set[str]()
    for error in (*wrong, *_meaning_errors(replace(document, data=sound), refused, is_simulation=is_simulation)):
        # a change is checked together with the values that it keeps
        if str(error) not in reported:
            reported.add(str(error))
            yield error


def override(folder: Path) -> list[str]:
    """Make the contracts in a folder override the packaged ones from now on, without those that have mistakes or gaps.

    The engine of such a file is left out. Return a message for each, and one if the folder holds them in a wrong place.
    """
    wrong = dict[Path, list[ContractError]]()
    for file in sorted([*folder.glob("engines/*.yaml"), *folder.glob("simulations/*.yaml")]):
        try:
            wrong[file] = list(problems(read(file)))
        except ContractError as unreadable:
            wrong[file] = [unreadable]
    use_overlay(folder, without=[file for file, mistakes in wrong.items() if mistakes])
    misplaced = not wrong and any(folder.glob("*.yaml"))
    where = [f"{folder} has no contracts: they are read from {folder}/engines"] if misplaced else []
    return where + [_left_out(file, mistakes) for file, mistakes in wrong.items() if mistakes]


def _left_out(file: Path, mistakes: Sequence[ContractError]) -> str:
    """Return which engine a file leaves out, and why: its gaps, or the first mistake."""
    of = "the simulation of " if file.parent.name == "simulations" else ""
    gaps = [mistake.path for mistake in mistakes if mistake.what == IS_GAP]
    others = [mistake for mistake in mistakes if mistake.what != IS_GAP]
    why = [f"{file}: {len(gaps)} gap{'s' * (len(gaps) > 1)}: {', '.join(gaps)}"] if gaps else []
    why += [str(others[0])] if others else []
    more = f"\n{len(others) - 1} more: turngate contracts check {file}" if len(others) > 1 else ""
    return f"{of}{file.stem} is left out: " + "\n".join(why) + more


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
        yield from _auto_approving(document, launch.at(key), launch.data[key], flags)
    for j, channel in enumerate(launch.data["prompt"]):
        at, text = launch.at("prompt", j, "tokens"), {"{text}": int(channel["via"] == "argument")}
        yield from _slot_errors(document, at, channel["tokens"], text)
        yield from _auto_approving(document, at, [token for token in channel["tokens"] if "{text}" not in token], flags)
    yield from _auto_approving(document, launch.at("interactive"), launch.data.get("interactive", ()), flags)
    if launch.data["auto"] and any(NONE in claim.data for claim in document.claims("auto_flags")):
        message = "the contract says under `auto_flags` that the engine has no auto-approve option"
        yield document.error(launch.at("auto"), message, "leave `auto` empty, or list its options under `auto_flags`")


def _guard_errors(document: Document, guards: Claim) -> _Errors:
    held = {key: [claim.data for claim in document.meeting(key, guards)] for key in ("auto_flags", "options")}
    yield from _auto_approving(document, guards.at("options"), guards.data.get("options", ()), convert(held, Flags))


def _artifact_errors(document: Document, artifacts: Claim) -> _Errors:
    """Find options that let the engine write anywhere, or that don't name the directory, and files that none uses."""
    yield from _guard_errors(document, artifacts)
    options, at = artifacts.data["options"], artifacts.at("options")
    named = {"{artifacts}": "the directory", **({"{files}": "the files"} if "files" in artifacts.data else {})}
    for slot, what in named.items():
        if not any(slot in token for token in options):
            yield document.error(at, f"no option names {what}", f"write {slot} where it belongs")


def _slot_errors(document: Document, at: Path_, tokens: Sequence[str], wanted: Mapping[str, int]) -> _Errors:
    for slot, count in wanted.items():
        places = [i for i, token in enumerate(tokens) if slot in token]
        what = _WHAT.get(slot, "the prompt")
        if len(places) < count:
            yield document.error(at, f"has no slot for {what}", f"add {slot} where it belongs")
        elif len(places) > count:
            message = f"has more than one slot for {what}" if count else f"can't hold {what}"
            yield document.error((*at, places[count]), message, f"remove {slot}")


def _auto_approving(document: Document, at: Path_, tokens: Sequence[str], flags: Flags) -> _Errors:
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


def _instruction_file_errors(document: Document, kind: Claim) -> _Errors:
    if named_in := kind.data.get("named_in"):
        places = _stored_places(document, kind)
        yield from _unknown_slots(document, kind.at("named_in", "file"), named_in["file"], places)


def _copied_settings_errors(document: Document, copied: Claim) -> _Errors:
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
    (_flag_errors, "artifacts", "options"),
    (_artifact_errors, "artifacts", "auto_flags", "options"),
    (interactive_errors, "options", "auto_flags"),
    (_launch_errors, "launch", "options", "auto_flags"),
    (_handle_errors, "handle"),
    (output_errors, "outputs", "launch", "auto_flags", "options"),
    *((record_errors, section, "streams") for section in ("events", "handle", "end", "failures", "final")),
    (_sticky_errors, "sticky", "options"),
    (transport_errors, "sticky", "launch"),
    (_store_errors, "store"),
    (_environment_errors, "environment", "store"),
    (_resume_probe_errors, "resume_probe", "store"),
    (_instruction_file_errors, "instruction_files", "store"),
    (_unsafe_setting_errors, "unsafe_settings", "store"),
    (_copied_settings_errors, "copied_settings", "store", "environment"),
)
