"""May the newer release take the older one's place: the exit code, and the reasons for it."""

from collections.abc import Sequence

from msgspec import Struct

from turngate.contract.clauses import Result, Severity
from turngate.contract.verdict import Verdict
from turngate_probes.gate import baseline
from turngate_probes.gate.baseline import UNASKED, Entry
from turngate_probes.gate.classify import Difference, Impact
from turngate_probes.gate.compare import Results
from turngate_probes.report.build import BUG, CRASHED_CODE, INTERRUPTED_CODE, bugs
from turngate_probes.report.structs import ReleaseReport

PASS, FAIL, UNANSWERED, CRASHED, INTERRUPTED = "pass", "fail", "unanswered", "crashed", "interrupted"
CODES = {PASS: 0, FAIL: 1, UNANSWERED: 2, CRASHED: CRASHED_CODE, INTERRUPTED: INTERRUPTED_CODE}


class Reason(Struct, frozen=True):
    """What speaks against the newer release, or was not answered, in one sentence.

    `kind` is clause (`about` is its id then), the kind of a difference, baseline, unanswered, crashed or interrupted;
    `clause` is the promise that it is about.
    """

    kind: str
    about: str
    text: str
    clause: str | None = None
    at: str = ""


class Ruling(Struct, frozen=True):
    """The outcome with its reasons, what each entry of the baseline does, and what they excuse."""

    outcome: str
    reasons: tuple[Reason, ...]
    entries: tuple[tuple[Entry, str], ...]
    excused: tuple[tuple[Reason, Entry], ...] = ()

    @property
    def code(self) -> int:
        """The exit code."""
        return CODES[self.outcome]

    @property
    def sentences(self) -> list[str]:
        """The reasons, each sentence once."""
        return list(dict.fromkeys(each.text for each in self.reasons))


def rule(
    old: ReleaseReport, new: ReleaseReport, found: Sequence[Difference], entries: Sequence[Entry],
    *, interrupted: bool = False,
) -> Ruling:  # fmt: skip
    """Judge two releases (of a report) and what they differ in; `entries` are those that concern the newer one."""
    results = Results(new)
    against = [*_breaking(found), *_failing(new)]
    named = {each.clause for each in against if each.kind != "clause"}
    states = tuple((e, baseline.state(_result(e.clause, results, new), breaks=e.clause in named)) for e in entries)
    excusing = {entry.clause: entry for entry, state in states if state == "excuses"}
    excused = tuple((each, excusing[each.clause]) for each in against if each.clause in excusing)
    standing = [each for each in against if each.clause not in excusing]
    standing += [_passing(entry) for entry, state in states if state == "passes"]
    open_ = [*_unanswered(old, Results(old)), *_unanswered(new, results)]
    if failed := [Reason(CRASHED, name, f"{name}: {BUG}") for name in (*bugs(old), *bugs(new))]:
        return Ruling(CRASHED, tuple(failed), states, excused)
    if interrupted:
        stopped = Reason("interrupted", INTERRUPTED, "interrupted: this is what was known by then")
        return Ruling(INTERRUPTED, (stopped,), states, excused)
    outcome = FAIL if standing else UNANSWERED if open_ else PASS
    return Ruling(outcome, tuple(dict.fromkeys((*standing, *open_))), states, excused)


def _result(name: str, results: Results, new: ReleaseReport) -> Result:
    """Return the result of what an entry of a baseline names."""
    if name != UNASKED:
        return results.of(name)
    access = new.tool_access and new.tool_access.interactive
    return Result.PASS if access and access.call else Result.NOT_RUN


def _breaking(found: Sequence[Difference]) -> list[Reason]:
    """Tell of breaking differences; those of clauses are told with the clauses."""
    return [
        Reason(each.kind, f"{each.kind} {each.subject}", f"{each.kind} {each.subject}: {each.detail}", each.clause)
        for each in found
        if each.impact is Impact.BREAKING and each.kind != "clause"
    ]


def _failing(new: ReleaseReport) -> list[Reason]:
    """Tell of breaking clauses that fail, whether or not they failed before."""
    return [
        Reason("clause", each.id, f"{each.id} fails: {each.detail}", each.id)
        for each in new.clauses
        if (each.severity, each.result) == (Severity.BREAKING, Result.FAIL)
    ]


def _passing(entry: Entry) -> Reason:
    text = f"{entry.clause} passes now: remove {entry.at} ({entry.reason})"
    return Reason("baseline", f"baseline {entry.clause}", text, entry.clause, entry.at)


def _unanswered(release: ReleaseReport, results: Results) -> list[Reason]:
    name = release.release
    if release.failed:
        return [Reason("unanswered", name, f"{name} could not be asked: {release.failed.what}")]
    found = [
        Reason("unanswered", f"{name}: {each.id}", f"{name}: {each.id} was not answered: {each.detail}")
        for each in release.clauses
        if (each.severity, each.result) == (Severity.BREAKING, Result.NOT_RUN) and not results.fallen(each.id)
    ]
    if not found and release.verdict == Verdict.UNANSWERED and not _fell(release):
        found = [Reason("unanswered", name, f"{name} is unanswered")]
    return found


def _fell(release: ReleaseReport) -> bool:
    return any(each.result in (Result.FAIL, Result.UNSUPPORTED) for each in release.clauses)
