"""Sample gate reports for the tests of rendering."""

from typing import Any

from tests.probes.report import journals as j
from tests.probes.report import samples
from turngate.contract.verdict import FailOn
from turngate_probes.gate.collect import Collected, ReleaseAnswer
from turngate_probes.gate.decision import gate_report
from turngate_probes.journal.events import Event
from turngate_probes.report.publish import checked
from turngate_probes.report.reports import Entry, GateReport

OLD, NEW = "codex@0.160.0", "codex@0.169.0"
REQUEST = j.REQUEST | {"tools": ["exec_command"], "reply": "tool_call exec_command"}
DEAD = "resume.dead-handle"


def fails(clause_id: str = DEAD, detail: str = "exit code 0") -> Any:
    """Return the event of a failing clause."""
    return j.clause(clause_id, "fail", detail=detail)


def call(release: str, *, acted: bool, reported: str = "no") -> Any:
    """Return the event of a turn in which the model calls a tool."""
    return j.turn(release, case="tool-call", requests=[REQUEST], acted=acted, told=reported)


def of(
    old: list[Event],
    new: list[Event],
    *excused: str,
    at: str = "b.yaml:3",
    why: str = "mended upstream",
    interrupted: bool = False,
    fail_on: FailOn = FailOn.BROKEN,
    clauses: tuple[str, ...] = (),
) -> GateReport:
    """Return the gate report on these events, with a baseline that excuses these names."""
    frame = samples.of(old, new, fail_on=fail_on, clauses=clauses)
    before, after = (ReleaseAnswer(frame, *answer) for answer in zip(frame.releases, (old, new), strict=True))
    entries = [Entry(name, None, None, why, at) for name in excused]
    baseline = "b.yaml" if excused else None
    answers = Collected(before, after, None)
    report = gate_report(answers, entries, seconds=3.0, interrupted=interrupted, baseline=baseline)
    checked(report)
    return report


def release(name: str, *changed: Event, verdict: str = "compatible", acted: bool = False) -> list[Event]:
    """Return the events of one release, including a tool call."""
    first, *rest = samples.whole(*changed, verdict=verdict, release=name)
    return [first, call(name, acted=acted), *rest]


def green_by_baseline() -> GateReport:
    """Both releases fail a breaking clause, which the baseline excuses; another clause is degraded."""
    old = release(OLD, fails(), verdict="broken")
    return of(old, release(NEW, fails(), fails("stdin.open", "it hangs"), verdict="broken"), DEAD)


def green_with_changes() -> GateReport:
    """The newer release has a new caveat, and one that the older release has too."""
    both = j.clause("stdin.open", "deviates", detail="it hangs", action="close standard input")
    away = "set a deadline for each turn, because the engine can keep retrying a failing model backend"
    new = j.clause("backend.failure-told", "deviates", detail="hangs", action=away)
    return of(release("codex@0.147.0", both), release(NEW, both, new))


def red_by_a_tool() -> GateReport:
    """No clause fails, but a tool runs unasked."""
    return of(release(OLD), release(NEW, acted=True))


def red_by_all() -> GateReport:
    """A clause fails and a baseline entry is obsolete; the older release fails a clause that the newer one passes."""
    old = release(OLD, fails("prompt.large", "cut"), verdict="broken")
    return of(old, release(NEW, fails(), verdict="broken"), "resume.accepted")


def hostile() -> GateReport:
    """Every text is hostile."""
    first, _, *rest = release(
        NEW,
        fails(detail=samples.HOSTILE),
        fails("resume.accepted", samples.HOSTILE),
        j.clause("prompt.large", "deviates", detail=samples.HOSTILE, action=samples.HOSTILE),
        verdict="broken",
    )
    reported = [first, call(NEW, acted=True, reported=samples.HOSTILE), *rest]
    return of(release(OLD), reported, DEAD, "stdin.open", at="\0:x", why=samples.HOSTILE)


def unanswered() -> GateReport:
    """The older release could not be tested."""
    return of([j.planned(OLD), j.failed(OLD)], release(NEW))
