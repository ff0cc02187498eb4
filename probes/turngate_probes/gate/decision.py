"""Builds the report of a gate from the results of both releases, and reads and checks a saved one.

It decides whether you can upgrade to the newer release, and why, and lists what an orchestrator must do before: for the
newer release's caveats, and for its changes.
"""

import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import UNSET
from msgspec.structs import replace
from rich.console import Console
from semver import Version

from turngate import UsageError, load_contract
from turngate.contract import load
from turngate.contract.clauses import Level, Result, Severity
from turngate.contract.load import catalogue
from turngate.contract.verdict import FALLEN, FailOn, Verdict, decode_hook, verdict
from turngate.contract.versions import Range
from turngate.decoding import convert
from turngate_probes.gate.beginnings import published, with_beginnings
from turngate_probes.gate.collect import CROSSED, Collected, Collecting, ReleaseQuestion
from turngate_probes.gate.compare import Results, Side, claim_differences, differences, surface
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.matrix.run import matrix_settings
from turngate_probes.releases.pins import pinned_version
from turngate_probes.releases.registry import LATEST, RegistryName
from turngate_probes.releases.selection import known_clauses
from turngate_probes.releases.target import Target, parse_target
from turngate_probes.report.baseline import ExpectedFailure, read
from turngate_probes.report.build import BUG, CRASHED_CODE, INTERRUPTED_CODE, bugs, code_of
from turngate_probes.report.load import contradiction, read_json, refused
from turngate_probes.report.progress import live
from turngate_probes.report.reports import (
    Action,
    Baseline,
    Difference,
    Entry,
    Excuse,
    ExitCode,
    GateDecision,
    GatedRelease,
    GateOutcome,
    GateReason,
    GateReport,
    Impact,
    ProbeReport,
    ReleaseReport,
    known_caveats,
)

CODES: Mapping[GateOutcome, ExitCode] = {
    GateOutcome.PASS: 0,
    GateOutcome.FAIL: 1,
    GateOutcome.UNANSWERED: 2,
    GateOutcome.CRASHED: CRASHED_CODE,
    GateOutcome.INTERRUPTED: INTERRUPTED_CODE,
}
SURFACE = ("option", "command", "protocol", "event", "key", "tool", "call")
SCHEMA = str(GateReport.__struct_config__.tag)
EARLIER_SCHEMA = "turngate.gate-report/2"  # spells `changes_required` with a hyphen


def expected_failures(path: Path, engine: str) -> tuple[Entry, ...]:
    """Read an engine's entries in a baseline; ContractError if it is wrong, MachineError if it can't be read."""
    entries = read(path, ExpectedFailure, {"clause": catalogue().keys()}, "see clauses.yaml")
    return tuple(
        Entry(entry.clause, entry.since, entry.until, entry.reason, at)
        for entry, at in entries
        if entry.engine == engine
    )


def within(entries: Iterable[Entry], version: str | None) -> list[Entry]:
    """Return the entries whose range covers a release."""
    return [entry for entry in entries if Range(entry.since, entry.until).covers(version)]


def state(result: Result, *, named: bool) -> Literal["excuses", "passes", "not_asked"]:
    """Return what an entry does, by its clause's result: `excuses` a failure, `passes` now, or is `not_asked`.

    `named`: something else that would fail the gate is about the clause of the entry, or a prerequisite of it fell.
    """
    if result in (Result.FAIL, Result.UNSUPPORTED) or named:
        return "excuses"
    return "passes" if result in (Result.PASS, Result.DEVIATES) else "not_asked"


def rule(
    old: ReleaseReport,
    new: ReleaseReport,
    differences: Iterable[Difference],
    expected: Sequence[Entry],
    *,
    fail_on: FailOn = FailOn.BROKEN,
    interrupted: bool = False,
) -> tuple[GateDecision, tuple[Entry, ...]]:
    """Judge the newer release by `fail_on` and the baseline; also return what the baseline's entries do."""
    results = Results(new)
    against = list(_against(new, list(differences), fail_on))
    named = {reason.clause for reason in against} | {clause.id for clause in new.clauses if results.fallen(clause.id)}
    entries = tuple(
        replace(entry, state=state(results.of(entry.clause), named=entry.clause in named)) for entry in expected
    )
    excusing = {entry.clause: entry for entry in entries if entry.state == "excuses"}
    excused = tuple(Excuse(r, excusing[r.clause].reason) for r in against if r.clause in excusing)
    standing = [reason for reason in against if reason.clause not in excusing]
    for entry in entries:
        if entry.state == "passes":
            now = "is a known caveat" if results.of(entry.clause) is Result.DEVIATES else "passes"
            text = f"{entry.clause} {now} now: remove {entry.at} ({entry.reason})"
            standing.append(GateReason("baseline", f"baseline {entry.clause}", text, entry.clause, entry.at))
    left_open = [*_unanswered(old), *_unanswered(new, excusing)]
    outcome = GateOutcome.FAIL if standing else GateOutcome.UNANSWERED if left_open else GateOutcome.PASS
    reasons = [*standing, *left_open]
    if interrupted:
        outcome, text = GateOutcome.INTERRUPTED, "interrupted, so the results are incomplete"
        reasons = [GateReason("interrupted", "interrupted", text)]
    if unexplained := [*bugs(old), *bugs(new)]:
        outcome, reasons = GateOutcome.CRASHED, [GateReason("crashed", n, f"{n}: {BUG}") for n in unexplained]
    return GateDecision(outcome, tuple(dict.fromkeys(reasons)), excused), entries


def sentences(decision: GateDecision) -> tuple[str, ...]:
    """Return the reasons without duplicates."""
    return tuple(dict.fromkeys(reason.text for reason in decision.reasons))


def _against(new: ReleaseReport, differences: Sequence[Difference], fail_on: FailOn) -> Iterator[GateReason]:
    """Return what fails the gate, unless the baseline excuses it."""
    yield from _differing(differences, Impact.BREAKING)
    # a breaking clause counts even if it failed before
    yield from _failing_clauses(new, breaking=True)
    if fail_on is FailOn.BROKEN:
        return
    yield from _differing(differences, Impact.DEGRADED)
    yield from _failing_clauses(new, breaking=False)
    with_caveats = fail_on is FailOn.CAVEAT
    for clause in new.clauses:
        if with_caveats and clause.result is Result.DEVIATES:
            yield GateReason("caveat", clause.id, f"{clause.id} is a known caveat: {clause.detail}", clause.id)
        elif clause.stale:
            text = f"a declared deviation of {clause.id} no longer occurs: {clause.detail}"
            yield GateReason("stale", clause.id, text, clause.id)
    if with_caveats:
        yield from _declared(new, differences)


def _differing(differences: Iterable[Difference], impact: Impact) -> Iterator[GateReason]:
    """Return the differences of an impact, except caveats, claims, and clauses that fail."""
    for row in differences:
        if row.impact is not impact or row.kind in ("claim", "deviation"):
            continue
        if row.kind != "clause":
            about = f"{row.kind} {row.subject}"
            yield GateReason(row.kind, about, f"{about}: {row.detail}", row.clause)
        elif row.after == Result.UNSUPPORTED:
            yield GateReason("clause", row.subject, f"{row.subject} is unsupported: {row.detail}", row.clause)


def _failing_clauses(new: ReleaseReport, *, breaking: bool) -> Iterator[GateReason]:
    """Return the clauses that fail, either the breaking ones or the others."""
    for clause in new.clauses:
        if clause.result is Result.FAIL and (clause.severity is Severity.BREAKING) is breaking:
            yield GateReason("clause", clause.id, f"{clause.id} fails: {clause.detail}", clause.id)


def _declared(new: ReleaseReport, differences: Iterable[Difference]) -> Iterator[GateReason]:
    """Return the new caveats that did not occur this time."""
    reported = {clause.id for clause in new.clauses if clause.stale or clause.result is Result.DEVIATES}
    for row in differences:
        if row.kind == "deviation" and row.after is not None and row.clause not in reported:
            yield GateReason("caveat", f"caveat {row.subject}", f"new caveat {row.subject}: {row.detail}", row.clause)


def _unanswered(release: ReleaseReport, excusing: Container[str] = ()) -> Iterator[GateReason]:
    """Return what was not tested, unless a failure explains it that is not excused; `excusing` are excused clauses."""
    name, results = release.release, Results(release)
    if release.failed:
        yield GateReason("unanswered", name, f"{name} could not be tested: {release.failed.what}")
        return
    left_open = [
        clause
        for clause in release.clauses
        if (clause.severity, clause.result) == (Severity.BREAKING, Result.NOT_RUN)
        and clause.id not in excusing
        and not any(need.result is Result.UNSUPPORTED or need.id not in excusing for need in results.fallen(clause.id))
    ]
    for clause in left_open:
        text = f"{name}: {clause.id} could not be tested: {clause.detail}"
        yield GateReason("unanswered", f"{name}: {clause.id}", text)
    fell = any(clause.result in FALLEN for clause in release.clauses)
    if not left_open and release.verdict is Verdict.UNANSWERED and not fell:
        yield GateReason("unanswered", name, f"{name} is unanswered")


def actions(old: ReleaseReport, new: ReleaseReport, compared: Sequence[Difference]) -> tuple[Action, ...]:
    """List what an orchestrator must do to use the newer release; new actions come first."""
    degraded = [row for row in compared if row.impact is Impact.DEGRADED]
    caveats = list(_caveats(old, new, [row for row in degraded if row.kind == "deviation"]))
    changes = [
        *(Action("change", *_claim(row), (new.release,), new=True) for row in degraded if row.kind == "claim"),
        *(_surface(row, new) for row in degraded if row.kind in SURFACE),
        *(
            Action("change", row.subject, f"do without it: {row.detail}", (new.release,), new=True)
            for row in degraded
            if (row.kind, row.after) == ("clause", Result.UNSUPPORTED)
        ),
        *_failing(old, new),
    ]
    return tuple(sorted(dict.fromkeys([*caveats, *changes]), key=lambda action: not action.new))


def _caveats(old: ReleaseReport, new: ReleaseReport, declared: Sequence[Difference]) -> Iterator[Action]:
    """Return the caveats of the newer release, and those `declared` only for it that did not occur this time."""
    before, after = (dict.fromkeys(_parts(release)) for release in (old, new))
    was, now = Results(old), Results(new)
    added = dict.fromkeys((row.clause or row.subject, part) for row in declared for part in row.detail.split("; "))
    stale = {clause.id for clause in new.clauses if clause.stale}
    for clause, text in after | {caveat: None for caveat in added if caveat[0] not in stale}:
        begins = (was.of(clause), now.of(clause)) == (Result.PASS, Result.DEVIATES)
        is_new = (begins or (clause, text) in added) and (clause, text) not in before
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
        # the detail says which words of a list
        text = (
            f"expect another list: {row.detail}" if "|" in row.after else f"expect {row.after}{instead}: {row.detail}"
        )
    return Action("change", f"{row.kind} {row.subject}", text, (new.release,), new=row.before != row.after)


def _failing(old: ReleaseReport, new: ReleaseReport) -> Iterator[Action]:
    """Return the degraded clauses that fail; if a breaking one fails, there is no upgrade to prepare."""
    before = Results(old)
    for clause in new.clauses:
        entry = catalogue().get(clause.id)
        if (clause.result, clause.severity) == (Result.FAIL, Severity.DEGRADED) and entry:
            text = f"do not rely on it: {entry.why[0].lower()}{entry.why[1:]}"
            is_new = before.of(clause.id) is not Result.FAIL
            yield Action("change", clause.id, text, (new.release,), new=is_new)


def gate_report(
    collected: Collected, expected: Sequence[Entry], *, seconds: float, interrupted: bool, baseline: str | None
) -> GateReport:
    """Compare and judge the collected results; `expected` are the entries of the baseline at `baseline`."""
    old, new = _named(collected.old.release, _with_crossing(collected.new.release, collected.crossing))
    was, now = (load.find_contract(release.engine, release.version) for release in (old, new))
    compared = list[Difference]()
    if was and now and not old.failed and not new.failed:
        before = Side(old, surface(collected.old.events, collected.old.release.release, published(old)))
        shown = surface(collected.new.events, collected.new.release.release, published(new))
        after = Side(new, shown, collected.hidden)
        tested = {clause.id for clause in new.clauses} if collected.new.report.clauses else None
        compared = [*differences(before, after, was), *claim_differences(was, now, tested)]
        compared = with_beginnings(compared, new.engine, old.version, new.version)
    compared.sort(key=lambda row: list(Impact).index(row.impact))
    probe = _joined(collected.new.report, old, new, seconds, interrupted=interrupted)
    listed = Baseline(baseline, tuple(within(expected, new.version)))
    return _judged(probe, tuple(compared), listed, round(seconds, 3), interrupted=interrupted)


def _judged(
    probe: ProbeReport, compared: tuple[Difference, ...], baseline: Baseline, seconds: float, *, interrupted: bool
) -> GateReport:
    """Return the report that follows from the tests of both releases, their differences and the baseline."""
    old, new = probe.releases
    decision, entries = rule(old, new, compared, baseline.entries, fail_on=probe.fail_on, interrupted=interrupted)
    required = actions(old, new, compared)
    return GateReport(
        turngate=probe.turngate,
        started_at=probe.started_at,
        engine=new.engine,
        old=_gated(old),
        new=_gated(new),
        outcome=decision.outcome,
        exit_code=CODES[decision.outcome],
        changes_required=_changes_required(decision, required, probe.clauses),
        reasons=sentences(decision),
        actions=required,
        decision=decision,
        counts={impact: sum(row.impact is impact for row in compared) for impact in Impact},
        differences=compared,
        baseline=replace(baseline, entries=entries),
        seconds=seconds,
        clauses=probe.clauses,
        probe=probe,
    )


def _named(old: ReleaseReport, new: ReleaseReport) -> tuple[ReleaseReport, ReleaseReport]:
    """Add executables to the names only if both releases have the same version."""
    if old.version == new.version:
        return old, replace(new, release=f"{new.release} (new)") if new.release == old.release else new
    return _without_build(old), _without_build(new)


def _without_build(release: ReleaseReport) -> ReleaseReport:
    name = f"{release.engine}@{release.version}"
    return replace(release, release=name) if release.release.startswith(f"{name} (") else release


def load_gate(path: Path) -> GateReport | None:
    """Read the report of a gate; None if it is something else, UsageError if it contradicts itself."""
    document = read_json(path) if path.suffix.lower() == ".json" else None
    if not isinstance(document, dict) or document.get("schema") not in (EARLIER_SCHEMA, SCHEMA):
        return None
    with refused(path):
        if document["schema"] == EARLIER_SCHEMA:
            document |= {"schema": SCHEMA, "changes_required": document.pop("changes-required")}
        report = convert(document, GateReport, dec_hook=decode_hook)
        wrong = contradiction(report.probe) or _contradiction(report)
    if wrong:
        raise UsageError(f"{path} is not a valid report: {wrong}", "pass the unchanged report of `turngate gate`")
    return report


def _contradiction(report: GateReport) -> str | None:
    """Find contradictions to the probe, the differences and the entries of the baseline."""
    interrupted = report.outcome is GateOutcome.INTERRUPTED
    following = _judged(report.probe, report.differences, report.baseline, report.seconds, interrupted=interrupted)
    wrong = [name for name in GateReport.__struct_fields__ if getattr(report, name) != getattr(following, name)]
    return f"it contradicts its own data: {', '.join(wrong)}" if wrong else None


def _gated(release: ReleaseReport) -> GatedRelease:
    """Return the result of a release as a whole."""
    return GatedRelease(*(getattr(release, name) for name in GatedRelease.__struct_fields__))


def _changes_required(decision: GateDecision, required: Sequence[Action], selected: Sequence[str]) -> bool | None:
    """Whether a green upgrade requires something that the older release doesn't; None if unknown."""
    if decision.outcome is not GateOutcome.PASS:
        return None
    # clauses that were not selected may require changes
    return any(action.new for action in required) or (None if selected else False)


def _with_crossing(release: ReleaseReport, crossing: ProbeReport | None) -> ReleaseReport:
    """Add the clauses that test both releases, and determine the newer one's verdict again."""
    if crossing is None:
        return release
    (crossed,) = crossing.releases
    clauses = (*release.clauses, *crossed.clauses)
    return replace(
        release,
        clauses=clauses,
        verdict=release.verdict and verdict(clauses),
        turns=release.turns + crossed.turns,
        engine_seconds=release.engine_seconds + crossed.engine_seconds,
    )


def _joined(
    frame: ProbeReport, old: ReleaseReport, new: ReleaseReport, seconds: float, *, interrupted: bool
) -> ProbeReport:
    """Put both releases into one report of a probe."""
    asked = tuple(clause.id for clause in new.clauses) if frame.clauses else ()
    return replace(
        frame,
        interrupted=interrupted,
        clauses=asked,
        seconds=round(seconds, 3),
        engine_seconds=round(old.engine_seconds + new.engine_seconds, 3),
        peak_usage=UNSET,
        releases=(old, new),
        exit_code=code_of((old, new), frame.fail_on, interrupted=interrupted),
    )


def question(
    new: str,
    old: str | None,
    *,
    baseline: Path | None,
    results: Path | None,
    cache_limit: str,
    jobs: int | None,
    clauses: Sequence[str],
    long: bool = False,
    registry: RegistryName | None = None,
    fail_on: FailOn = FailOn.BROKEN,
) -> ReleaseQuestion:
    """Read the arguments; UsageError or ContractError if they are wrong."""
    level: Level = "long" if long else "hermetic"
    newer = asked_for(new)
    engine = newer.engine
    older = _target(old) if old else Target(engine, pinned_version(engine))
    if not older.version and not older.path:
        raise UsageError(f"{engine} is not pinned", f"pass the older release: --from {_forms(engine, 'VERSION')}")
    if older.engine != engine:
        raise UsageError(f"{older} and {newer} are different engines", "compare two releases of one engine")
    crossed = tuple(clause for clause in clauses if clause in CROSSED)
    asked = known_clauses([clause for clause in clauses if clause not in CROSSED], level)
    settings = matrix_settings(
        level,
        asked or (("version.readable",) if crossed else ()),
        results=results,
        cache_limit=cache_limit,
        jobs=jobs,
        registry=registry,
        fail_on=fail_on,
    )
    return ReleaseQuestion(
        older,
        newer,
        settings,
        crossed if clauses else CROSSED,
        expected_failures(baseline, engine) if baseline else (),
        str(baseline) if baseline else None,
        is_own_pin=not old,
    )


def answer(question: ReleaseQuestion, console: Console, interrupt: Interrupt) -> GateReport:
    """Collect the results and compare them."""
    started = time.monotonic()
    with live(console, interrupt) as listener:
        collected = Collecting(question, listener, interrupt).run()
    return gate_report(
        collected,
        question.expected,
        seconds=time.monotonic() - started,
        interrupted=interrupt.is_set(),
        baseline=question.baseline,
    )


def asked_for(new: str) -> Target:
    """Read the release to upgrade to, the newest one of an engine without a version; UsageError if it names none."""
    target = parse_target(new)
    contract = load_contract(target.engine)
    is_published = bool(contract.npm or contract.published.pypi)
    return _target(f"{new}@{LATEST}" if is_published and not target.version and not target.path else new)


def _target(text: str) -> Target:
    target = parse_target(text)
    if not target.version and not target.path:
        raise UsageError(f"{text!r} is not a release", f"write {_forms(text, LATEST, 'VERSION')}")
    if target.version and target.version != LATEST and not Version.is_valid(target.version):
        hint = f"write {target.engine}@MAJOR.MINOR.PATCH, {target.engine}@{LATEST} or {target.engine}=PATH"
        raise UsageError(f"{text!r} is not a release: {target.version!r} is not an exact version", hint)
    return target


def _forms(engine: str, *versions: str) -> str:
    """Return how to write a release of an engine, by these versions or by its path alone if nothing is published."""
    contract = load_contract(engine)
    published = contract.npm or contract.published.pypi
    forms = ", ".join(f"{engine}@{version}" for version in versions if published)
    return f"{forms} or {engine}=PATH" if published else f"{engine}=PATH"
