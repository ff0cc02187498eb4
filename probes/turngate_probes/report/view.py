"""What every format shows of a report, decided once: headline, judged clauses, remarks, differences, tool access."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from turngate.contract.clauses import Clause, Result, Severity
from turngate.contract.load import catalogue
from turngate.contract.verdict import ClauseResult, FailOn, Verdict
from turngate.sanitize import visible
from turngate_probes.journal.tool_access import ToolAccessRow, rows
from turngate_probes.report.gate_structs import Difference, GateOutcome, GateReason, GateReport, Impact, Ruling
from turngate_probes.report.source_locations import Place, below, place_of
from turngate_probes.report.structs import ProbeReport, ReleaseReport

RemarkLevel: TypeAlias = Literal["error", "warning", "note"]
Judgement: TypeAlias = Literal["passed", "noted", "skipped", "failed", "open"]

# the severest first
REMARK_LEVELS: Final[dict[Severity, RemarkLevel]] = {
    Severity.BREAKING: "error", Severity.DEGRADED: "warning", Severity.INFORMATIVE: "note",
}  # fmt: skip
ANSWERED = "turngate.answered"
OPEN = ("unanswered", "interrupted")
TITLES = {
    GateOutcome.PASS: "may take the place of",
    GateOutcome.FAIL: "must not take the place of",
    GateOutcome.UNANSWERED: "could not be asked everything about taking the place of",
    GateOutcome.CRASHED: "was not judged, since turngate itself failed, about taking the place of",
    GateOutcome.INTERRUPTED: "was not asked to the end about taking the place of",
}
MEANING = {
    0: "no release fails, and none is left unanswered",
    1: "a release fails",
    2: "a question is left unanswered",
    3: "turngate itself failed: it can't say why a clause was not run; please report it",
    130: "interrupted",
}
FAILS = {
    FailOn.BROKEN: "a release is broken",
    FailOn.DEGRADED: "a release is broken or degraded, or a declared deviation no longer occurs",
    FailOn.CAVEAT: "a release is broken or degraded, or has known caveats",
}
NOTHING = "there was nothing to probe"
NOT_TESTED = "not tested"
ACTIONS = "What your orchestrator must do"
MINUTE, TEN = 60, 10


class Remark(Struct, frozen=True):
    """One remark on a release; `about` tells it apart from all others of that release.

    `rule` is the clause that fails, or the kind of reason (None: nothing that the engine did); `result` is that of a
    clause that failed; `clause` or `at`, an entry of a baseline, say where it has its place.
    """

    release: ReleaseReport
    level: RemarkLevel
    about: str
    text: str
    rule: str | None = None
    clause: str | None = None
    at: str = ""
    result: ClauseResult | None = None

    @property
    def title(self) -> str:
        """The release, and what the remark is about."""
        name = name_of(self.release)
        return f"{name} {self.about.removeprefix(f'{name}: ')}".rstrip()

    @property
    def place(self) -> Place | None:
        """The place of the claim that the remark is about, or of the entry of the baseline."""
        if not self.at:
            named = self.clause and (self.result or known(self.clause))
            return place_of(self.release, self.clause) if self.clause and named else None
        file, _, line = self.at.rpartition(":")
        path = below(file)
        return (path, int(line)) if path and line.isdecimal() else None


class JudgedCase(Struct, frozen=True):
    """A clause of a release, or another reason of a gate, as test reports judge it.

    `kind` says what kind of failure it is; what a `clause` showed, or a `hint`, belongs to it.
    """

    name: str
    judgement: Judgement
    text: str
    kind: str = ""
    clause: ClauseResult | None = None
    hint: str = ""


class Action(Struct, frozen=True):
    """What an orchestrator must do about a known caveat, and the releases that have it."""

    clause: str
    text: str
    releases: tuple[str, ...]


class View(Struct, frozen=True):
    """A report as every format shows it.

    gate: The report of the gate whose probe this is; None for a probe alone.
    ruling: That of the gate; empty for a probe alone.
    meaning: What the exit code of the probe means.
    verdicts: The number of releases of each verdict, the worst first.
    remarks: What is wrong and what is excused, the severest first; those of a gate are on the newer release alone.
    actions: What an orchestrator must do, a line for each known caveat; those of a gate are on the newer release alone.
    differences: Those that cost or bring something, except clauses that fell with others that they need.
    fallen: The clauses that fell with others that they need.
    """

    probe: ProbeReport
    gate: GateReport | None
    ruling: Ruling
    headline: str
    meaning: str
    verdicts: Mapping[Verdict, int]
    remarks: tuple[Remark, ...]
    actions: tuple[Action, ...]
    differences: tuple[Difference, ...]
    fallen: tuple[Difference, ...]
    tool_access: tuple[tuple[ReleaseReport, ToolAccessRow], ...]

    def cases(self, release: ReleaseReport) -> Iterator[JudgedCase]:
        """Return a case for each clause of a release and each other reason; what is excused is skipped."""
        reasons = {reason.about: reason for reason in self.ruling.reasons}
        excused = {excuse.reason.about: excuse.text for excuse in self.ruling.excused}
        for clause in release.clauses:
            # by either name, as a clause that failed or that was not answered
            reason = reasons.pop(clause.id, None) or reasons.pop(f"{release.release}: {clause.id}", None)
            excuse = excused.pop(clause.id, None)
            if reason:
                yield _against(reason, clause.id, clause)
            elif excuse:
                yield JudgedCase(clause.id, "skipped", excuse)
            elif self.gate and clause.result is Result.FAIL:
                yield JudgedCase(clause.id, "noted", f"fails, which is {clause.severity} alone: {clause.detail}")
            else:
                yield judged(clause, self.probe.fail_on)
        yield from (_against(reason, about) for about, reason in reasons.items())
        yield from (JudgedCase(about, "skipped", excuse) for about, excuse in excused.items())
        if release.verdict is Verdict.UNANSWERED and not self.gate:  # skipped cases alone would look green
            failed = release.failed
            message = failed.what if failed else "a breaking clause could not be run, so nothing is promised"
            yield JudgedCase(ANSWERED, "open", message, "unanswered", hint=failed.hint if failed else "")


def view(report: ProbeReport | GateReport) -> View:
    """Decide what is shown of a report."""
    probe, gate = (report.probe, report) if isinstance(report, GateReport) else (report, None)
    ruling = gate.ruling if gate else Ruling(GateOutcome.PASS, ())
    counts = Counter(release.verdict for release in probe.releases if release.verdict)
    verdicts = {verdict: counts[verdict] for verdict in reversed(Verdict)}
    differences = [row for row in gate.differences if row.impact is not Impact.NONE] if gate else []
    fallen = tuple(row for row in differences if (row.kind, row.after) == ("clause", Result.NOT_RUN))
    return View(
        probe, gate, ruling, _title(gate) if gate else _gist(probe, verdicts), _meaning(probe), verdicts,
        tuple(_of_gate(gate.judged, ruling) if gate else _of_probe(probe.releases)),
        _actions([gate.judged] if gate else probe.releases),
        tuple(row for row in differences if row not in fallen), fallen,
        tuple((release, row) for release in probe.releases for row in rows(release.tool_access)),
    )  # fmt: skip


def known(clause_id: str) -> Clause | None:
    """Return the catalogue's entry; None for a clause of another turngate."""
    return catalogue().get(clause_id)


def name_of(release: ReleaseReport) -> str:
    """Return the release's key, visible."""
    return visible(release.release)


def basis(release: ReleaseReport) -> str:
    """Return what is added to a verdict that rests on recordings, empty where the release was run."""
    return ", from recordings" if release.source == "recordings" else ""


def verdict_of(release: ReleaseReport) -> str:
    """Return the verdict of a release with the number of its caveats; a run of selected clauses has none."""
    caveats = sum(clause.result is Result.DEVIATES for clause in release.clauses)
    with_caveats = f", {caveats} known caveat{'s' * (caveats > 1)}" if caveats else ""
    return f"{release.verdict or 'no verdict'}{with_caveats}{basis(release)}"


def profile_of(release: ReleaseReport) -> str:
    """Return the profile kind that a release earns, `not tested` if resuming was not."""
    return release.profile.kind if release.profile else NOT_TESTED


def counted(release: ReleaseReport) -> str:
    """Return the number of clauses by result; `unsupported` is left out where it is 0."""
    counts = Counter(clause.result for clause in release.clauses)
    caveats, total = counts[Result.DEVIATES], len(release.clauses)
    words = [f"{counts[Result.PASS]} passed", f"{caveats} known caveat{'s' * (caveats != 1)}"]
    words += [f"{counts[Result.FAIL]} failed", f"{counts[Result.NOT_RUN]} not run"]
    words += [f"{counts[Result.UNSUPPORTED]} unsupported"] if counts[Result.UNSUPPORTED] else []
    return f"{total} clause{'s' * (total != 1)}: {', '.join(words)}"


def duration(seconds: float) -> str:
    """Return a time as people say it: `0.4 s`, `12 s`, `3 min 3 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < MINUTE:
        return f"{seconds:.1f} s" if whole < TEN else f"{whole} s"
    minutes, rest = divmod(whole, MINUTE)
    hours, minutes = divmod(minutes, MINUTE)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def state(clause: ClauseResult) -> str:
    """Return the result of a clause, or `stale`."""
    return "stale" if clause.stale and clause.result is Result.PASS else clause.result


def judged(clause: ClauseResult, fail_on: FailOn = FailOn.BROKEN) -> JudgedCase:
    """Judge a clause as a probe does: what makes its exit code 1 fails, and so does what breaks the contract."""
    said = f"{state(clause).replace('_', ' ')}: {clause.detail}"
    if clause.result is Result.FAIL:
        return JudgedCase(clause.id, "failed", clause.detail, clause.severity, clause)
    if clause.result in (Result.UNSUPPORTED, Result.NOT_RUN):
        return JudgedCase(clause.id, "skipped", said)
    if clause.stale and fail_on is not FailOn.BROKEN:
        return JudgedCase(clause.id, "failed", clause.detail, "stale")
    if clause.result is Result.DEVIATES and fail_on is FailOn.CAVEAT:
        return JudgedCase(clause.id, "failed", f"{clause.detail}; {clause.action}", "caveat")
    return JudgedCase(clause.id, "noted" if clause.stale or clause.result is Result.DEVIATES else "passed", said)


def _against(reason: GateReason, name: str, clause: ClauseResult | None = None) -> JudgedCase:
    if reason.kind in OPEN:
        return JudgedCase(name, "open", reason.text, reason.kind, clause)
    return JudgedCase(name, "failed", reason.text, "baseline" if reason.kind == "baseline" else "breaking", clause)


def _of_gate(release: ReleaseReport, ruling: Ruling) -> Iterator[Remark]:
    """Remark on each reason of a ruling, then on what failed besides, then on what is excused."""
    for reason in ruling.reasons:
        rule = reason.about if reason.kind == "clause" else f"gate.{reason.kind}"
        yield Remark(release, "error", reason.about, reason.text, rule, reason.clause, reason.at)
    named = {reason.about for reason in (*ruling.reasons, *(excuse.reason for excuse in ruling.excused))}
    yield from (remark for remark in _failed([release]) if remark.about not in named)
    for excuse in ruling.excused:
        reason = excuse.reason
        yield Remark(release, "note", reason.about, excuse.text, None, reason.clause, reason.at)


def _of_probe(releases: Iterable[ReleaseReport]) -> Iterator[Remark]:
    for release in releases:
        if release.failed:
            yield Remark(release, "error", "", f"could not be asked: {release.failed.what}")
    yield from _failed(releases)


def _failed(releases: Iterable[ReleaseReport]) -> Iterator[Remark]:
    failed = [(release, clause) for release in releases for clause in release.clauses if clause.result is Result.FAIL]
    for severity, level in REMARK_LEVELS.items():
        for release, clause in failed:
            if clause.severity is severity:
                yield Remark(release, level, clause.id, clause.detail, clause.id, clause.id, result=clause)


def _actions(releases: Iterable[ReleaseReport]) -> tuple[Action, ...]:
    having: dict[tuple[str, str], list[str]] = {}
    for release in releases:
        for clause in release.clauses:
            if clause.action:
                having.setdefault((clause.id, clause.action), []).append(release.release)
    return tuple(Action(clause, text, tuple(names)) for (clause, text), names in having.items())


def _title(report: GateReport) -> str:
    return visible(f"{report.new.release} {TITLES[report.outcome]} {report.old.release}")


def _gist(report: ProbeReport, verdicts: Mapping[Verdict, int]) -> str:
    releases = report.releases
    if not releases:
        return "Nothing was probed"
    if len(releases) == 1:
        (only,) = releases
        return f"{name_of(only)} is {verdict_of(only)}" if only.verdict else f"{name_of(only)}: {counted(only)}"
    if not any(verdicts.values()):
        failing = sum(any(clause.result is Result.FAIL for clause in release.clauses) for release in releases)
        return f"{failing} of {len(releases)} releases fail a selected clause"
    worst, count = next(pair for pair in verdicts.items() if pair[1])
    if count == len(releases):
        return f"All {count} releases are {worst}"
    return f"{count} of {len(releases)} releases {'is' if count == 1 else 'are'} {worst}"


def _meaning(report: ProbeReport) -> str:
    if not report.releases and not report.interrupted:
        return NOTHING
    return FAILS[report.fail_on] if report.exit_code == 1 else MEANING[report.exit_code]
