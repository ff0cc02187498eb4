"""The failures that are expected: a file that excuses clauses in a range of releases, until they pass."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from turngate.contract import load
from turngate.contract.clauses import Result
from turngate.contract.versions import Range
from turngate.errors import ContractError, EnvironmentFailed

SCHEMA = "gate-baseline"
# what may be excused though it is no clause: a tool that runs unasked in mode interactive
UNASKED = "interactive.tool-call"


class Entry(Struct, frozen=True):
    """An expected failure; `at` is where it stands in its file."""

    engine: str
    clause: str
    reason: str
    since: str | None = None
    until: str | None = None
    at: str = ""

    def covers(self, engine: str, version: str | None) -> bool:
        """Return whether a release may fail by this entry."""
        return self.engine == engine and Range(self.since, self.until).covers(version)


def read(path: Path) -> tuple[Entry, ...]:
    """Read a baseline file; ContractError says where it is wrong, EnvironmentFailed that it can't be read."""
    try:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise EnvironmentFailed(f"the baseline {path} can't be read: {error.strerror}", "see --baseline") from error
    document = load.parse(text, str(path))
    wrong = next(load.schema_errors(document, SCHEMA), None) or next(_wrong(document), None)
    if wrong:
        raise wrong
    return tuple(
        Entry(**each, at=f"{path}:{document.marks[i,][0]}") for i, each in enumerate(document.data or ())
    )  # fmt: skip


def concerning(entries: Sequence[Entry], engine: str, version: str | None) -> tuple[Entry, ...]:
    """Choose the entries that speak of a release."""
    return tuple(each for each in entries if each.covers(engine, version))


def state(result: Result, *, breaks: bool) -> str:
    """Return what an entry does, by its clause's result: `excuses` a failure, `passes` now, or is `not_asked`.

    `breaks`: a breaking difference is about what the entry names.
    """
    if result in (Result.FAIL, Result.UNSUPPORTED) or breaks:
        return "excuses"
    return "passes" if result in (Result.PASS, Result.DEVIATES) else "not_asked"


def _wrong(document: load.Document) -> Iterator[ContractError]:
    known = {clause.id for clause in load.catalogue().clauses} | {UNASKED}
    for i, each in enumerate(document.data or ()):
        since, until = each.get("since"), each.get("until")
        if each["clause"] not in known:
            yield document.error((i, "clause"), f"no clause {each['clause']!r}", "see clauses.yaml")
        if each["engine"] not in load.engines():
            yield document.error((i, "engine"), f"no engine {each['engine']!r}", f"there are {load.engines()}")
        if since and until and not Range(since, until).covers(since):
            yield document.error(
                (i, "until"), f"{until} is not after {since}", "`until` is the first that is expected to pass"
            )
