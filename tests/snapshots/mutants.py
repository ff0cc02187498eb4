"""Contracts with one broken extraction rule each; every one must change a snapshot."""

from collections.abc import Iterator, Sequence
from typing import Any, get_args, get_type_hints

from msgspec.structs import replace

from turngate.contract.engine_contract import EngineContract, FailureSign, Framed, HandlePlace
from turngate.contract.launch import Stream
from turngate.contract.values import Match

FRAMINGS = get_args(get_type_hints(Framed)["framing"])
PLACES = get_args(get_type_hints(HandlePlace)["record"])
OTHER: dict[Stream, Stream] = {"stdout": "stderr", "stderr": "stdout"}
Mutants = Iterator[tuple[str, EngineContract]]


def mutants(contract: EngineContract, paths: Sequence[str]) -> Mutants:
    """Yield a description and the contract for each broken rule; `paths` are key paths to swap in."""
    yield from _streams(contract)
    yield from _events(contract, paths)
    yield from _handle(contract, paths)
    yield from _failures(contract, paths)
    for what, end in _placed(contract.end):
        yield f"end: {what}", replace(contract, end=end)
    # on a plain-text stream everything is the answer, so no rule can match
    for what, final in _placed(contract.final) if contract.final.field else ():
        yield f"final: {what}", replace(contract, final=final)
    for name in ("field", "group"):
        for what, value in _texts(getattr(contract.final, name), paths):
            yield f"final.{name} {what}", replace(contract, final=replace(contract.final, **{name: value}))


def _streams(contract: EngineContract) -> Mutants:
    records = contract.handle.stream
    for name in OTHER:
        framed = contract.stream(name)
        # on a stream without output no tagged block is read
        others = [
            other for other in FRAMINGS if other != framed.framing and (name == records or other != "tagged_block")
        ]
        changed = [(f"framing {other}", replace(framed, framing=other, tag="x")) for other in others]
        changed += [(f"tag {what}", replace(framed, tag=value or "")) for what, value in _texts(framed.tag or None)]
        changed += [
            (f"noise {pattern} missing", replace(framed, noise=tuple(p for p in framed.noise if p != pattern)))
            for pattern in framed.noise
        ]
        if framed.noise or (name == records and framed.framing != "tagged_block"):
            changed.append(("everything noise", replace(framed, noise=(*framed.noise, ".*"))))
        for what, value in changed:
            yield f"{name}: {what}", replace(contract, streams=replace(contract.streams, **{name: value}))


def _events(contract: EngineContract, paths: Sequence[str]) -> Mutants:
    events = contract.events
    yield "events: stream", replace(contract, events=replace(events, stream=OTHER[events.stream]))
    for what, value in _texts(events.field, paths) if events.field else [("added", "type")]:
        yield f"events.field {what}", replace(contract, events=replace(events, field=value))
    for name in events.names:
        names = tuple(other for other in events.names if other != name)
        yield f"events: {name} missing", replace(contract, events=replace(events, names=names))


def _handle(contract: EngineContract, paths: Sequence[str]) -> Mutants:
    place = contract.handle
    changed: list[tuple[str, HandlePlace]] = list(_placed(place))
    changed += [(f"record {other}", replace(place, record=other)) for other in PLACES if other != place.record]
    changed += [(f"field {what}", replace(place, field=value)) for what, value in _texts(place.field, paths) if value]
    changed.append(("handle_type", replace(place, handle_type="opaque")))
    shapes = {"anything": "(?s:.*)", "more behind": f"(?:{place.shape})(?s:.*)", "more before": f".*(?:{place.shape})"}
    shapes |= {"any case": f"(?i:{place.shape})", "nothing": "(?!)"}
    changed += [(f"shape: {what}", replace(place, shape=shape)) for what, shape in shapes.items()]
    for what, value in changed:
        yield f"handle: {what}", replace(contract, handle=value)


def _failures(contract: EngineContract, paths: Sequence[str]) -> Mutants:
    for at, sign in enumerate(contract.failures):
        others = contract.failures[:at], contract.failures[at + 1 :]
        yield f"failures {at}: missing", replace(contract, failures=(*others[0], *others[1]))
        changed: list[tuple[str, FailureSign]] = list(_placed(sign))
        changed += [(f"has {what}", replace(sign, has=value)) for what, value in _texts(sign.has, paths)]
        changed += [(f"message {what}", replace(sign, message=value)) for what, value in _texts(sign.message, paths)]
        for what, value in changed:
            yield f"failures {at}: {what}", replace(contract, failures=(*others[0], value, *others[1]))


def _placed(rule: Any) -> Iterator[tuple[str, Any]]:
    """Yield the rule with another stream and with other match conditions."""
    yield "stream", replace(rule, stream=OTHER[rule.stream])
    for what, match in _matches(rule.match):
        yield f"match {what}", replace(rule, match=match)


def _matches(match: Match | None) -> Iterator[tuple[str, Match | None]]:
    if match is None:
        yield "added", {"brand": "new"}
        return
    for key in match:
        yield f"without {key}", {other: value for other, value in match.items() if other != key} or None
        yield f"with another {key}", {**match, key: "brand new"}


def _texts(value: str | None, others: Sequence[str] = ()) -> list[tuple[str, str | None]]:
    """Return replacements for a text, if there is one."""
    if value is None:
        return []
    return [("missing", None), ("changed", value + "x"), *((other, other) for other in others if other != value)]
