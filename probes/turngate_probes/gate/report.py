"""Builds the report of a gate from the results of both releases, and reads and checks a saved one."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import UNSET
from msgspec.structs import replace

from turngate import EnvironmentFailed
from turngate.contract import load
from turngate.contract.verdict import decode_hook, verdict
from turngate.decoding import convert
from turngate_probes.gate.actions import actions
from turngate_probes.gate.baseline import concerning
from turngate_probes.gate.claims import claim_differences
from turngate_probes.gate.collect import Collected
from turngate_probes.gate.compare import Side, differences, surface, unasked
from turngate_probes.gate.ruling import CODES, rule, sentences
from turngate_probes.report.actions import Action
from turngate_probes.report.build import code_of
from turngate_probes.report.gate_structs import (
    Baseline,
    Difference,
    Entry,
    GatedRelease,
    GateOutcome,
    GateReport,
    Impact,
    Ruling,
)
from turngate_probes.report.load import read_json, refused, told_otherwise
from turngate_probes.report.structs import ProbeReport, ReleaseReport


def gate_report(
    collected: Collected, expected: Sequence[Entry], *, seconds: float, interrupted: bool, baseline: str | None
) -> GateReport:
    """Compare and judge the collected results; `expected` are the entries of the baseline at `baseline`."""
    old, new = _named(collected.old.release, _with_crossing(collected.new.release, collected.crossing))
    was, now = (load.covering(release.engine, release.version) for release in (old, new))
    compared = unasked(new)
    if was and now and not old.failed and not new.failed:
        before = Side(old, surface(collected.old.events, collected.old.release.release))
        after = Side(new, surface(collected.new.events, collected.new.release.release))
        compared = [*differences(before, after, was), *claim_differences(was, now)]
    compared.sort(key=lambda row: list(Impact).index(row.impact))
    fail_on, expected = collected.new.report.fail_on, concerning(expected, new.version)
    ruling, entries = rule(old, new, compared, expected, fail_on=fail_on, interrupted=interrupted)
    probe = _joined(collected.new.report, old, new, seconds, interrupted=interrupted)
    required = actions(old, new, compared)
    return GateReport(
        turngate=probe.turngate, started_at=probe.started_at, engine=new.engine, old=_gated(old), new=_gated(new),
        outcome=ruling.outcome, exit_code=CODES[ruling.outcome], reasons=sentences(ruling), actions=required,
        changes_required=_changes_required(ruling, required, probe.clauses), ruling=ruling, counts=_counted(compared),
        differences=tuple(compared), baseline=Baseline(baseline, entries), seconds=round(seconds, 3),
        clauses=probe.clauses, probe=probe,
    )  # fmt: skip


def _named(old: ReleaseReport, new: ReleaseReport) -> tuple[ReleaseReport, ReleaseReport]:
    """Add executables to the names only if both releases have the same version."""
    if old.version == new.version:
        return old, replace(new, release=f"{new.release} (new)") if new.release == old.release else new
    return _without_build(old), _without_build(new)


def _without_build(release: ReleaseReport) -> ReleaseReport:
    name = f"{release.engine}@{release.version}"
    return replace(release, release=name) if release.release.startswith(f"{name} (") else release


def load_gate(path: Path) -> GateReport | None:
    """Read the report of a gate; None if it is something else, EnvironmentFailed if it contradicts itself."""
    document = read_json(path) if path.suffix.lower() == ".json" else None
    if not isinstance(document, dict) or document.get("schema") != "turngate.gate-report/2":
        return None
    with refused(path):
        report = convert(document, GateReport, dec_hook=decode_hook)
        wrong = told_otherwise(report.probe) or _told_otherwise(report)
    if wrong:
        raise EnvironmentFailed(
            f"{path} is not a valid report: {wrong}", "pass the unchanged report of `turngate gate`"
        )
    return report


def _told_otherwise(report: GateReport) -> str | None:
    """Find contradictions to the probe, the differences and the entries of the baseline."""
    old, new = report.probe.releases
    interrupted = report.outcome is GateOutcome.INTERRUPTED
    ruling, entries = rule(
        old, new, report.differences, report.baseline.entries, fail_on=report.probe.fail_on, interrupted=interrupted
    )
    required = actions(old, new, report.differences)
    following = replace(
        report, outcome=ruling.outcome, exit_code=CODES[ruling.outcome], reasons=sentences(ruling), ruling=ruling,
        baseline=replace(report.baseline, entries=entries), counts=_counted(report.differences), old=_gated(old),
        new=_gated(new), actions=required, changes_required=_changes_required(ruling, required, report.clauses),
    )  # fmt: skip
    wrong = [name for name in GateReport.__struct_fields__ if getattr(report, name) != getattr(following, name)]
    return f"it contradicts its own data: {', '.join(wrong)}" if wrong else None


def _gated(release: ReleaseReport) -> GatedRelease:
    """Return the result of a release as a whole."""
    return GatedRelease(*(getattr(release, name) for name in GatedRelease.__struct_fields__))


def _changes_required(ruling: Ruling, required: Sequence[Action], selected: Sequence[str]) -> bool | None:
    """Whether a green upgrade requires something that the older release doesn't; None if unknown."""
    if ruling.outcome is not GateOutcome.PASS:
        return None
    # clauses that were not selected may require changes
    return any(action.new for action in required) or (None if selected else False)


def _counted(compared: Sequence[Difference]) -> dict[Impact, int]:
    """Count the differences of each impact."""
    return {impact: sum(row.impact is impact for row in compared) for impact in Impact}


def _with_crossing(release: ReleaseReport, crossing: ProbeReport | None) -> ReleaseReport:
    """Add the clauses that test both releases, and determine the newer one's verdict again."""
    if crossing is None:
        return release
    (crossed,) = crossing.releases
    clauses = (*release.clauses, *crossed.clauses)
    return replace(
        release, clauses=clauses, verdict=release.verdict and verdict(clauses), turns=release.turns + crossed.turns,
        engine_seconds=release.engine_seconds + crossed.engine_seconds,
    )  # fmt: skip


def _joined(
    frame: ProbeReport, old: ReleaseReport, new: ReleaseReport, seconds: float, *, interrupted: bool
) -> ProbeReport:
    """Put both releases into one report of a probe."""
    asked = tuple(clause.id for clause in new.clauses) if frame.clauses else ()
    return replace(
        frame, level="hermetic", interrupted=interrupted, clauses=asked,
        seconds=round(seconds, 3), engine_seconds=round(old.engine_seconds + new.engine_seconds, 3),
        peak_usage=UNSET, releases=(old, new),
        exit_code=code_of((old, new), frame.fail_on, interrupted=interrupted),
    )  # fmt: skip
