"""Joins the results of plans, be they shards or a whole matrix, into one report."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from semver import Version

from turngate.contract.clauses import Reason
from turngate.errors import EnvironmentFailed
from turngate_probes.journal.events import Event, ProbeStarted, ReleaseFailed, ReleasePlanned
from turngate_probes.journal.journal import read
from turngate_probes.matrix.results import Plan
from turngate_probes.report.build import build, code_of
from turngate_probes.report.structs import PeakUsage, ProbeReport, ReleaseReport

NOT_PROBED = "it was not probed: the run of its shard ended before its turn"
INTERRUPTED = "interrupted"


def joined(
    plans: Sequence[Plan], folders: Sequence[Path], *, strict: bool = False, interrupted: bool = False,
    merging: bool = False,
    failed: Mapping[str, str] | None = None,
) -> ProbeReport:  # fmt: skip
    """Build the report of all that was planned; what no folder holds is unanswered.

    With `merging` that is what all shards were to do, else those of the plans alone. Of two plans of one release the
    newer one counts, and before both that of the shard whose part it was.
    `failed` says why of releases that could not even leave a journal. EnvironmentFailed if the plans don't fit
    together, or a journal can't be read.
    """
    plans = sorted(plans, key=lambda plan: plan.at, reverse=True)
    _check(plans)
    first, why, whys = plans[0], INTERRUPTED if interrupted else NOT_PROBED, dict(failed or {})
    found: dict[str, ReleaseReport] = {}
    wanted = [(plan, version) for plan in plans for version in plan.mine]
    wanted += [(plan, version) for plan in plans for version in plan.files if merging]
    for plan, version in wanted:
        name = f"{plan.engine}@{version}"
        if name not in found:
            found[name] = _release(plan, folders, version, whys.get(version, why))
    releases = tuple(sorted(found.values(), key=lambda each: (each.engine, Version.parse(str(each.version)))))
    totals = [plan.totals for plan in plans if plan.totals]
    return ProbeReport(
        turngate=first.turngate, started_at=min(plan.at for plan in plans), machine=first.machine, level=first.level,
        strict=strict, clauses=first.clauses, cores=first.machine.cores or 1, interrupted=interrupted,
        seconds=max((each.seconds for each in totals), default=0.0),
        engine_seconds=round(sum(each.engine_seconds for each in totals), 3),
        peak_usage=PeakUsage(
            max((each.cache_bytes for each in totals), default=0),
            max((each.memory_bytes for each in totals), default=0),
        ),
        exit_code=code_of(releases, strict=strict, interrupted=interrupted), releases=releases,
    )  # fmt: skip


def _check(plans: Sequence[Plan]) -> None:
    """Refuse plans whose answers say different things; EnvironmentFailed names what differs."""
    if len({(plan.level, plan.clauses) for plan in plans}) > 1:
        raise EnvironmentFailed("the shards were asked different questions", "merge those of one level and its clauses")
    if len(programs := {plan.turngate for plan in plans}) > 1:
        what = f"the shards are of different turngates: {', '.join(sorted(programs))}"
        raise EnvironmentFailed(what, "run the older ones again")
    for engine in sorted({plan.engine for plan in plans}):
        contracts = {plan.contract_version for plan in plans if plan.engine == engine}
        if len(contracts) > 1:
            what = f"the shards judge {engine} by different contracts: {', '.join(sorted(contracts))}"
            raise EnvironmentFailed(what, "run the older ones again")


def _release(plan: Plan, folders: Sequence[Path], version: str, why: str) -> ReleaseReport:
    for place in (plan.answered, plan.failed):
        for folder in folders:
            path = place(folder, version)
            if path.exists() and (listed := build(read(path)).releases):
                return listed[0]
    return _absent(plan, version, why)


def _absent(plan: Plan, version: str, why: str) -> ReleaseReport:
    release, at = f"{plan.engine}@{version}", plan.at
    reason = Reason.INTERRUPTED if why in (NOT_PROBED, INTERRUPTED) else Reason.MACHINE
    events: list[Event] = [
        ProbeStarted(
            at=at, turngate=plan.turngate, machine=plan.machine, level=plan.level, strict=False, cores=1,
            clauses=plan.clauses,
        ),
        ReleasePlanned(
            at=at, release=release, engine=plan.engine, version=version, executable=None, source=plan.source,
            contract_version=plan.contract_version, turns=0, note="",
        ),
        ReleaseFailed(at=at, release=release, reason=reason, what=why, hint="run the matrix again"),
    ]  # fmt: skip
    return build(events).releases[0]
