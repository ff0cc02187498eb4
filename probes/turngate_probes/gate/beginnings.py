"""Names the release between two in which each of their differences began, as far as the history knows it."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from turngate import history
from turngate.contract.versions import parse
from turngate.history import FROM_TYPES, Change, History, Kind
from turngate_probes.report.reports import Difference, ReleaseReport


def with_beginnings(
    differences: Iterable[Difference], engine: str, older: str | None, newer: str | None
) -> list[Difference]:
    """Add to each difference where it began; `older` and `newer` are the versions that are compared."""
    rows = list(differences)
    if older is None or newer is None or engine not in history.engines():
        return rows
    known = history.load(engine)
    changes = known.changes(older, newer)
    return [_with_beginning(row, changes, known, older) for row in rows]


def published(release: ReleaseReport) -> Mapping[str, Mapping[str, str]]:
    """Return what the history knows of a release from files that its vendor publishes, which no probe can see."""
    if release.version is None or release.engine not in history.engines():
        return {}
    known = history.load(release.engine).find(release.version)
    facts = known.facts if known else {}
    return {section: names for section, names in facts.items() if section.endswith(f"/{FROM_TYPES}")}


def _with_beginning(row: Difference, changes: Sequence[Change], known: History, older: str) -> Difference:
    since = next((change for change in reversed(changes) if _same(row, change)), None)
    if since is None:
        return row
    untested = known.untested(max(since.since, older, key=parse), since.release)
    return replace(row, began=f"one of {untested[0]} to {since.release}" if untested else since.release)


def _same(row: Difference, change: Change) -> bool:
    """Whether a change of the history has the subject of a difference, and leads to what the newer release shows."""
    about, agrees = (change.kind, change.subject), (change.after is None) == (row.after is None)
    match row.kind:
        case "clause":
            return about == ("clause", row.subject) and (change.after or "").partition(":")[0] == row.after
        case "deviation":
            clause, _, symptom = row.subject.partition(" ")
            return about == ("clause", clause) and symptom in ((change.after if row.after else change.before) or "")
        case "call":
            return change.kind == Kind.TOOL_CALL and f"mode {row.subject}" in change.where and change.after == row.after
        case "tool":
            tool, _, mode = row.subject.removesuffix(")").rpartition(" (")
            return about == (Kind.TOOL, tool) and f"mode {mode}" in change.where and agrees
        case "option":
            return about == (Kind.OPTION, row.subject) and agrees
        case "command" | "protocol" | "session" | "feature" | "variable" | "listed-model":
            return about == (row.kind.removeprefix("listed-"), row.subject) and change.after == row.after
        case "event" | "key":
            return about in ((Kind.RECORD, row.subject), (Kind.KEY, row.subject)) and agrees
        case "model" | "claim":
            return (row.kind, change.kind) == ("model", Kind.DEFAULT_MODEL) and change.after == row.after
