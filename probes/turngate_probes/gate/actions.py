"""What an orchestrator must do before it upgrades: for the newer release's caveats, and for its changes."""

from collections.abc import Iterator, Sequence

from turngate.contract.clauses import Result, Severity
from turngate.contract.load import catalogue
from turngate_probes.gate.compare import Results
from turngate_probes.report.actions import Action, known_caveats
from turngate_probes.report.gate_structs import Difference, Impact
from turngate_probes.report.structs import ReleaseReport

SURFACE = ("option", "event", "key", "tool", "call")


def actions(old: ReleaseReport, new: ReleaseReport, compared: Sequence[Difference]) -> tuple[Action, ...]:
    """List what an orchestrator must do to use the newer release; new actions come first."""
    degraded = [row for row in compared if row.impact is Impact.DEGRADED]
    caveats = list(_caveats(old, new, [row for row in degraded if row.kind == "deviation"]))
    changes = [
        *(Action("change", *_claim(row), (new.release,), new=True) for row in degraded if row.kind == "claim"),
        *(_surface(row, new) for row in degraded if row.kind in SURFACE),
        *_lost(new, degraded),
        *_failing(old, new),
    ]
    return tuple(sorted(dict.fromkeys([*caveats, *changes]), key=lambda action: not action.new))


def _caveats(old: ReleaseReport, new: ReleaseReport, declared: Sequence[Difference]) -> Iterator[Action]:
    """Return the caveats of the newer release, and those `declared` only for it that did not occur this time."""
    before, after = (dict.fromkeys(_parts(release)) for release in (old, new))
    added = dict.fromkeys((row.clause or row.subject, row.detail) for row in declared)
    stale = {clause.id for clause in new.clauses if clause.stale}
    for clause, text in after | {caveat: None for caveat in added if caveat[0] not in stale}:
        is_new = (clause, text) in added and (clause, text) not in before
        yield Action("caveat", clause, text, (new.release,), new=is_new)


def _parts(release: ReleaseReport) -> Iterator[tuple[str, str]]:
    """Return each known caveat of a release, with each action for it."""
    for caveat in known_caveats([release]):
        yield from ((caveat.about, part) for part in caveat.text.split("; "))


def _claim(row: Difference) -> tuple[str, str]:
    """Return the subject of a change in the contract, and what to do."""
    section = row.subject.partition(":")[0]
    if section == "auto_flags":
        return section, f"treat {row.after} as an auto-approve flag"
    if row.after in (None, "nothing"):
        return section, f"stop passing {row.before}"
    if section.startswith("launch."):
        instead = "" if row.before == "nothing" else f" instead of {row.before}"
        return section, f"pass {row.after}{instead}"
    return section, f"change {row.before} to {row.after}"


def _surface(row: Difference, new: ReleaseReport) -> Action:
    text = f"check whether you depend on it: {row.detail}"
    if row.after is not None:
        instead = "" if row.before in (None, row.after) else f" instead of {row.before}"
        text = f"expect {row.after}{instead}: {row.detail}"
    return Action("change", f"{row.kind} {row.subject}", text, (new.release,), new=row.before != row.after)


def _lost(new: ReleaseReport, degraded: Sequence[Difference]) -> Iterator[Action]:
    """Return what the newer release no longer supports."""
    for row in degraded:
        if (row.kind, row.after) == ("clause", Result.UNSUPPORTED):
            yield Action("change", row.subject, f"do without it: {row.detail}", (new.release,), new=True)


def _failing(old: ReleaseReport, new: ReleaseReport) -> Iterator[Action]:
    """Return the degraded clauses that fail; if a breaking one fails, there is no upgrade to prepare."""
    before = Results(old)
    for clause in new.clauses:
        entry = catalogue().get(clause.id)
        if (clause.result, clause.severity) == (Result.FAIL, Severity.DEGRADED) and entry:
            text = f"do not rely on it: {entry.why[0].lower()}{entry.why[1:]}"
            is_new = before.of(clause.id) is not Result.FAIL
            yield Action("change", clause.id, text, (new.release,), new=is_new)
