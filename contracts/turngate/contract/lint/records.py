"""What is read of an engine: rules that no record can meet, output modes, session ids and versions."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from turngate.contract.lint.approval import auto_approving, flags_of
from turngate.contract.load import Document
from turngate.contract.session_ids import numbered_like
from turngate.contract.versions import Basis, Claim, Path_
from turngate.errors import ContractError

_ONLY_RECORDS = ("match", "field", "group", "begins_after")


def record_errors(document: Document, claim: Claim) -> Iterator[ContractError]:
    """Find rules that no record can meet, in a claim of `events`, `handle`, `end`, `failures`, `reports` or `final`."""
    streams = [streams.data for streams in document.meeting("streams", claim)]
    yield from _rule_errors(document, claim.at, claim.data, str(claim.entry[0]), streams)


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
    yield from auto_approving(document, mode.at("arguments"), mode.data["arguments"], flags_of(document, mode))
    for section in ("streams", "events", "end", "final"):
        for key in mode.data[section].keys() & {*Basis.__struct_fields__, "changes"}:
            yield document.error(mode.at(section, key), f"`{key}` belongs to the whole output mode", "move it there")
    rules: list[tuple[Path_, Mapping[str, Any]]]
    rules = [((section,), mode.data[section]) for section in ("events", "handle", "end", "final")]
    rules += [((name, i), sign) for name in ("failures", "reports") for i, sign in enumerate(mode.data.get(name, ()))]
    for place, rule in rules:
        yield from _rule_errors(document, partial(mode.at, *place), rule, str(place[0]), [mode.data["streams"]])


def handle_errors(document: Document, handle: Claim) -> Iterator[ContractError]:
    """Find a shape that takes flags, and an id for tests that does not have the shape."""
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


def version_errors(document: Document, query: Claim) -> Iterator[ContractError]:
    """Find a pattern that finds no version."""
    if "version" not in re.compile(query.data["pattern"]).groupindex:
        yield document.error(query.at("pattern"), "has no group named `version`", r"such as (?P<version>\S+)")


def _rule_errors(
    document: Document,
    at: Callable[..., Path_],
    rule: Mapping[str, Any],
    section: str,
    streams: list[Mapping[str, Any]],
) -> Iterator[ContractError]:
    """Find a rule of a section that no record can meet with any of these framings."""
    stream = rule.get("stream", "stdout")
    framed = [one.get(stream, {"framing": "text"}) for one in streams]
    is_text = [one["framing"] == "text" for one in framed]
    if section == "final":
        yield from _answer_errors(document, at, rule, is_text)
    elif is_text and all(is_text) and not any("records" in one for one in framed):
        message = f"{stream} is framed as text, so it has no records"
        yield document.error(at("stream"), message, "name the stream with the records, or correct `streams`")


def _answer_errors(
    document: Document, at: Callable[..., Path_], final: Mapping[str, Any], is_text: list[bool]
) -> Iterator[ContractError]:
    stream = final.get("stream", "stdout")
    if is_text and all(is_text):
        for key in _ONLY_RECORDS:
            if key in final:
                message = f"{stream} is framed as text, so all of it is the answer"
                yield document.error(at(key), message, f"remove `{key}`, or correct `streams`")
    elif is_text and not any(is_text) and "field" not in final:
        yield document.error(at(), f"names no field of the records on {stream}", "add the path of the answer")
