"""The output of a simulated engine, from `simulations/<engine>.yaml`: records with slots, in their stream's framing."""

import json
import random
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from turngate import ContractError, EngineContract, NotFoundError
from turngate.contract import load
from turngate.contract.engine_contract import Framed
from turngate.contract.launch import Stream
from turngate.contract.simulation import DocumentForm, Line, Simulation
from turngate.contract.versions import bare
from turngate.decoding import convert
from turngate.files import overlay, simulation_files
from turngate_probes.simulate import help_pages

_SLOT = re.compile(r"\{(?P<name>[a-z_]+)(?::(?P<width>[0-9]+))?\}")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_ALPHABETS = {"hex": "0123456789abcdef", "alnum": f"0123456789{_LETTERS}{_LETTERS.upper()}"}

Slots = Mapping[str, Any]
_PROVIDED: dict[tuple[str, str | None], Simulation] = {}


def simulation_of(engine: str, version: str | None) -> Simulation | None:
    """Return the simulation of a release; None if no file describes it."""
    file = simulation_files().get(engine)
    return _read(file, version) if file else None


@cache
def _read(file: Path, version: str | None) -> Simulation | None:
    claims = load.read(file, ours=True).claims()
    claim = next((claim for claim in claims if claim.range.covers(version)), None)
    if claim is None:
        return None
    described = convert(bare(claim.data), Simulation)
    return help_pages.of_release(described, file.stem, version) if version else described


def simulation(contract: EngineContract) -> Simulation:
    """Return the simulation of the contract's release and output mode; NotFoundError if no file describes it."""
    described = _PROVIDED.get((contract.engine, contract.version)) or simulation_of(contract.engine, contract.version)
    if described is None:
        hint = f"describe it in {(overlay() or Path()) / 'simulations' / contract.engine}.yaml"
        raise NotFoundError(f"there is no simulation of {contract.engine} {contract.version or ''}".rstrip(), hint)
    return described.in_output(contract.launch.output)


def provide(contract: EngineContract, read: Simulation) -> None:
    """Have `simulation` return what another process has read."""
    _PROVIDED[contract.engine, contract.version] = read


def fill(template: str, slots: Slots) -> Any:
    """Fill the slots of one text; a text that is just a slot becomes its value. ContractError: no such slot."""
    alone = _SLOT.fullmatch(template)
    if alone:
        return _value(alone, slots)
    return _SLOT.sub(lambda match: str(_value(match, slots)), template)


def fill_all(data: Any, slots: Slots) -> Any:
    """Fill every text in a record, keys included."""
    if isinstance(data, str):
        return fill(data, slots)
    if isinstance(data, Mapping):
        return {str(fill(key, slots)): fill_all(value, slots) for key, value in data.items()}
    return [fill_all(part, slots) for part in data] if isinstance(data, list | tuple) else data


def chosen(lines: Iterable[Line], facts: Iterable[str]) -> Iterator[Line]:
    """Return the lines whose conditions hold: `when` among the facts of the turn, and none of `unless`."""
    known = frozenset(facts)
    return (line for line in lines if known.issuperset(line.when) and known.isdisjoint(line.unless))


def rendered(
    contract: EngineContract, lines: Iterable[Line], facts: Iterable[str], slots: Slots
) -> Iterator[tuple[Stream, bytes]]:
    """Return the bytes of the lines whose conditions hold."""
    how = simulation(contract)
    for line in chosen(lines, facts):
        if line.stdout is not None:
            yield "stdout", _framed(contract.streams.stdout, how, fill_all(line.stdout, slots))
        if line.stderr is not None:
            yield "stderr", _framed(contract.streams.stderr, how, fill_all(line.stderr, slots))


def json_text(described: Simulation, data: object, **how: Any) -> str:
    """Return JSON with the escapes of the engine."""
    text = json.dumps(data, ensure_ascii=False, **how)
    return re.sub(described.escapes, lambda found: f"\\u{ord(found[0]):04x}", text) if described.escapes else text


def _value(match: re.Match[str], slots: Slots) -> Any:
    name, width = match["name"], int(match["width"] or 0)
    if name in slots:
        return slots[name]
    if name == "uuid":
        return str(fill("{hex:8}-{hex:4}-4{hex:3}-9{hex:3}-{hex:12}", {}))
    if name == "millis":
        return int(time.time() * 1000)
    if name not in _ALPHABETS:
        raise ContractError(f"the simulation uses an unknown slot {match[0]}")
    return "".join(random.choices(_ALPHABETS[name], k=width))  # noqa: S311 - ids of a simulation guard nothing


def _framed(framed: Framed, described: Simulation, data: Any) -> bytes:
    """Return a record as bytes in its stream's framing, a document in its form; text is unchanged."""
    if not isinstance(data, Mapping):
        return str(data).encode("utf-8", "surrogateescape")
    form = described.document
    if framed.framing != "json_document":
        form = DocumentForm(spread=framed.framing != "ndjson", ends_line=True)
    how: dict[str, Any] = {"indent": 2} if form.spread else {"separators": (",", ":")}
    text = json_text(described, data, **how)
    if framed.framing == "tagged_block":
        text = f"<{framed.tag}>\n{text}\n</{framed.tag}>"
    return text.encode() + (b"\n" if form.ends_line else b"")
