"""Baselines: files of failures that a gate, or `turngate conform`, expects; read, and checked for mistakes."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from turngate import ContractError, UsageError, engine_names
from turngate.contract import load
from turngate.contract.values import Release, Text
from turngate.contract.versions import Range
from turngate.decoding import convert
from turngate.errors import did_you_mean


class ExpectedFailure(Struct, frozen=True, forbid_unknown_fields=True):
    """An entry has engine, clause and reason, and may have since and until.

    reason: say why the failure is expected
    since: the first release that is expected to fail
    until: the first release that is expected to pass
    """

    engine: Text
    clause: Text
    reason: Text
    since: Release | None = None
    until: Release | None = None


class ExpectedBreach(Struct, frozen=True, forbid_unknown_fields=True):
    """An entry has rule and reason, and may have engine, scenario, since and until.

    reason: say why the orchestrator breaks the rule
    engine: absent: with every engine
    scenario: absent: in every scenario
    since: the first release of the engine with which it is expected
    until: the first release of the engine with which it is no longer expected
    """

    rule: Text
    reason: Text
    engine: Text | None = None
    scenario: Text | None = None
    since: Release | None = None
    until: Release | None = None

    @property
    def name(self) -> str:
        """The entry in a few words."""
        return " ".join(filter(None, (self.rule, self.engine, self.scenario)))


Expected = TypeVar("Expected", ExpectedFailure, ExpectedBreach)
SCHEMAS: Mapping[type, str] = {ExpectedFailure: "gate-baseline", ExpectedBreach: "conform-baseline"}


def read(
    path: Path, kind: type[Expected], known: Mapping[str, Collection[str]], see: str
) -> tuple[tuple[Expected, str], ...]:
    """Read the entries of a baseline, each with its place `file:line`.

    `known` are the names that a key may have; `see` says where they are listed. ContractError if the file is wrong,
    UsageError if it can't be read.
    """
    try:
        with path.open("rb") as file:
            text = file.read(load.MOST_BYTES + 1).decode("utf-8", "surrogateescape")
    except OSError as error:
        raise UsageError(f"can't read the baseline {path}: {error.strerror}", "see --baseline") from error
    document = load.parse(text, str(path))
    if wrong := next(load.schema_errors(document, SCHEMAS[kind]), None):
        raise wrong
    entries = convert(document.data or (), tuple[kind, ...])  # type: ignore[valid-type]
    if wrong := next(_mistakes(document, entries, known, see), None):
        raise wrong
    return tuple((entry, f"{path}:{document.marks[i,][0]}") for i, entry in enumerate(entries))


def _mistakes(
    document: load.Document, entries: tuple[Expected, ...], known: Mapping[str, Collection[str]], see: str
) -> Iterator[ContractError]:
    """Find unknown names and empty ranges."""
    engines = engine_names()
    for i, entry in enumerate(entries):
        named = {key: (getattr(entry, key), names, see) for key, names in known.items()}
        named["engine"] = entry.engine, engines, f"engines: {', '.join(engines)}"
        for key, (value, names, hint) in named.items():
            if value is not None and value not in names and not (key == "engine" and load.unusable(value)):
                yield document.error((i, key), f"unknown {key} {value!r}", did_you_mean(value, names, hint))
        since, until = entry.since, entry.until
        if since and until and not Range(since, until).covers(since):
            hint = "`until` is the first release in which it is no longer expected"
            yield document.error((i, "until"), f"{until} is not after {since}", hint)
