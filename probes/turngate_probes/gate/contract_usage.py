"""The parts of an engine's surface that its contract uses, and the clauses that fail if they are missing."""

from collections.abc import Iterator, Mapping

from turngate import EngineContract
from turngate.contract.launch import Stream
from turngate_probes.gate.classify import Use

ANY = "*"


def option_use(contract: EngineContract, name: str) -> tuple[Use, str]:
    """Return what the contract does with a name on the help pages, and which clause tests it."""
    launch = contract.launch
    if name in launch.auto:
        return Use.RELIES, "auto.flags-accepted"
    if name in {*launch.start, *launch.resume, *launch.interactive, *launch.model, *contract.hermetic.options}:
        return Use.RELIES, "resume.accepted"
    # before the pages, because a turn that runs without it says nothing about it
    if any(name == option.flag for option in contract.options):
        return Use.OFFERS, "help.surface"
    if any(name in page.names for page in contract.help.pages):
        return Use.RELIES, "resume.accepted"
    return Use.NONE, "help.surface"


def keys_in_use(contract: EngineContract) -> Mapping[tuple[str, str], str]:
    """Return the records and keys that the contract reads, as (kind, path), each with the clause that tests it.

    The kind is `*` where it may be any; the path is empty for the record itself.
    """
    handle, end, final = contract.handle, contract.end, contract.final
    used = [
        *_of(contract, "handle.present", handle.stream, handle.match, handle.field),
        *_of(contract, "turn.terminal-event", end.stream, end.match),
        *_of(contract, "text.imitation", final.stream, final.match, final.field, final.group),
    ]
    for sign in contract.failures:
        used += _of(contract, "backend.failure-told", sign.stream, sign.match, sign.has, sign.message)
    return {(kind, path): clause for clause, kind, path in used}


def use_of(used: Mapping[tuple[str, str], str], kind: str, path: str) -> tuple[Use, str]:
    """Whether the contract reads a record or a key in it, and which clause tests it."""
    clause = used.get((kind, path)) or (used.get((ANY, path)) if path else None)
    return (Use.RELIES, clause) if clause else (Use.NONE, "stream.known-events")


def _of(
    contract: EngineContract, clause: str, stream: Stream, match: Mapping[str, object] | None, *paths: str | None
) -> Iterator[tuple[str, str, str]]:
    field = contract.events.field
    if stream != contract.events.stream:
        return
    matched = dict(match or {})
    kind = ANY if field is None else str(matched.get(field, ANY))
    if kind != ANY:
        yield clause, kind, ""
    for path in (*matched, *filter(None, paths)):
        yield clause, kind, path
        if field is None:
            # records without a kind are counted by their keys
            yield clause, path.partition(".")[0], ""
