"""Expected failures: a file that excuses clauses in a range of releases, until they pass."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct

from turngate import ContractError, EnvironmentFailed, engine_names
from turngate.contract import load
from turngate.contract.clauses import Result
from turngate.contract.values import Release, Text
from turngate.contract.versions import Range
from turngate.errors import did_you_mean
from turngate_probes.report.structs import Entry

BASELINE_SCHEMA = "gate-baseline"
# what an entry can name apart from clauses: a tool that runs without approval in mode interactive
UNASKED = "interactive.tool-call"


class ExpectedFailure(Struct, frozen=True):
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


def read(path: Path, engine: str) -> tuple[Entry, ...]:
    """Read an engine's entries in a baseline; ContractError if it is wrong, EnvironmentFailed if it can't be read."""
    try:
        with path.open("rb") as file:
            text = file.read(load.MOST_BYTES + 1).decode("utf-8", "surrogateescape")
    except OSError as error:
        raise EnvironmentFailed(f"can't read the baseline {path}: {error.strerror}", "see --baseline") from error
    document = load.parse(text, str(path))
    wrong = next(load.schema_errors(document, BASELINE_SCHEMA), None) or next(_wrong(document), None)
    if wrong:
        raise wrong
    return tuple(
        Entry(row["clause"], row.get("since"), row.get("until"), row["reason"], f"{path}:{document.marks[i,][0]}")
        for i, row in enumerate(document.data or ())
        if row["engine"] == engine
    )


def concerning(entries: Iterable[Entry], version: str | None) -> list[Entry]:
    """Return the entries whose range covers a release."""
    return [entry for entry in entries if Range(entry.since, entry.until).covers(version)]


def state(result: Result, *, named: bool) -> Literal["excuses", "passes", "not_asked"]:
    """Return what an entry does, by its clause's result: `excuses` a failure, `passes` now, or is `not_asked`.

    `named`: something else that would fail the gate is about the clause of the entry.
    """
    if result in (Result.FAIL, Result.UNSUPPORTED) or named:
        return "excuses"
    return "passes" if result in (Result.PASS, Result.DEVIATES) else "not_asked"


def _wrong(document: load.Document) -> Iterator[ContractError]:
    known = load.catalogue().keys() | {UNASKED}
    for i, row in enumerate(document.data or ()):
        since, until = row.get("since"), row.get("until")
        if row["clause"] not in known:
            hint = did_you_mean(row["clause"], known, "see clauses.yaml")
            yield document.error((i, "clause"), f"unknown clause {row['clause']!r}", hint)
        if row["engine"] not in engine_names():
            hint = did_you_mean(row["engine"], engine_names(), f"engines: {', '.join(engine_names())}")
            yield document.error((i, "engine"), f"unknown engine {row['engine']!r}", hint)
        if since and until and not Range(since, until).covers(since):
            hint = "`until` is the first release that is expected to pass"
            yield document.error((i, "until"), f"{until} is not after {since}", hint)
