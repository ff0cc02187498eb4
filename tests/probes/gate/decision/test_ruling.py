"""The outcome of a gate: its exit code and its reasons."""

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

import pytest

from tests.probes.gate import views
from tests.probes.gate.release_samples import clause, release
from tests.probes.report import journals as j
from tests.tables import each
from turngate.contract.verdict import ClauseResult, FailOn
from turngate_probes.gate.compare import CALL_CLAUSE
from turngate_probes.gate.decision import CODES, rule, sentences
from turngate_probes.journal.events import Event
from turngate_probes.report.github import annotations
from turngate_probes.report.junit import junit
from turngate_probes.report.markdown import markdown
from turngate_probes.report.release_view import view
from turngate_probes.report.reports import (
    Difference,
    Entry,
    GateDecision,
    GateOutcome,
    GateReason,
    GateReport,
    Impact,
    ReleaseReport,
)
from turngate_probes.report.sarif import sarif
from turngate_probes.report.text import report_lines

FAILS = clause("resume.dead-handle", "fail", "exit code 0")
CALL = {"tool": "write", "exit_code": 0, "seconds": 1.0, "told": "no"}
GONE = Difference("option", "--oss", "--oss", None, Impact.BREAKING, "gone", "help.surface")
STALE = clause("stdin.open", "pass", "ended; stale: the declared deviation hang did not occur", stale=True)
CAVEAT = clause("stdin.open", "deviates", "it hangs", action="close standard input")
LOST = Difference("option", "--json", "--json", None, Impact.DEGRADED, "gone", "resume.accepted")
UNSUPPORTED = Difference("clause", "stdin.open", "pass", "unsupported", Impact.DEGRADED, "no input", "stdin.open")
CLAIM = Difference("claim", "launch.auto", "--old", "--new", Impact.DEGRADED, "the arguments differ", None)
DECLARED = Difference("deviation", "prompt.large cut", None, "cut", Impact.DEGRADED, "send less", "prompt.large")


class Ruled(NamedTuple):
    """A ruling, and the state of each baseline entry."""

    decision: GateDecision
    entries: tuple[Entry, ...]

    @property
    def code(self) -> int:
        """Return the exit code."""
        return CODES[self.decision.outcome]

    @property
    def reasons(self) -> tuple[GateReason, ...]:
        """Return the reasons."""
        return self.decision.reasons

    @property
    def sentences(self) -> tuple[str, ...]:
        """Return the reasons in words."""
        return sentences(self.decision)


def ruled(
    *clauses: ClauseResult,
    old: ReleaseReport | None = None,
    differences: tuple[Difference, ...] = (),
    expected: tuple[str, ...] = (),
    interrupted: bool = False,
    fail_on: FailOn = FailOn.BROKEN,
    **more: Any,
) -> Ruled:
    """Rule on a newer release that has these clause results."""
    entries = [Entry(name, None, None, "known", "b.yaml:1") for name in expected]
    newer = release("codex@0.170.0", *clauses, **more)
    older = old or release("codex@0.160.0")
    return Ruled(*rule(older, newer, differences, entries, fail_on=fail_on, interrupted=interrupted))


def test_nothing_against_it() -> None:
    """Without a breaking problem the gate passes with no reasons; degraded differences do not fail it."""
    harmless = Difference("clause", "stdin.open", "pass", "fail", Impact.DEGRADED, "hangs", "stdin.open")
    assert ruled(clause("stdin.open", "fail"), differences=(harmless,)).decision == GateDecision(GateOutcome.PASS, ())
    assert ruled().code == 0


def test_a_breaking_clause_that_fails_is_against_it_even_if_it_failed_before() -> None:
    """A failing breaking clause fails the gate even if the older release failed it too."""
    outcome = ruled(FAILS, old=release("codex@0.160.0", FAILS))
    assert (outcome.code, outcome.sentences) == (1, ("resume.dead-handle fails: exit code 0",))


def test_a_breaking_difference_is_against_it() -> None:
    """A breaking difference fails the gate, even if no clause fails."""
    assert (ruled(differences=(GONE,)).code, ruled(differences=(GONE,)).sentences) == (1, ("option --oss: gone",))


def test_the_baseline_excuses_until_it_passes() -> None:
    """An expected failure does not fail the gate. An expected failure that now passes does."""
    assert ruled(FAILS, expected=("resume.dead-handle",)).code == 0
    assert ruled(differences=(GONE,), expected=("help.surface",)).code == 0
    gone = ruled(expected=("resume.dead-handle",))
    assert gone.code == 1
    assert "remove b.yaml:1" in gone.sentences[0]
    assert [entry.state for entry in gone.entries] == ["passes"]
    assert "stdin.open is a known caveat now: remove b.yaml:1" in ruled(CAVEAT, expected=("stdin.open",)).sentences[0]


def test_what_is_excused_is_told_with_its_entry() -> None:
    """Each excused problem is listed with the reason from its baseline entry."""
    outcome = ruled(FAILS, differences=(GONE,), expected=("resume.dead-handle", "help.surface"))
    reported = [(excuse.reason.about, excuse.why) for excuse in outcome.decision.excused]
    assert reported == [("option --oss", "known"), ("resume.dead-handle", "known")]
    assert outcome.reasons == ()


def test_a_degraded_difference_keeps_no_entry() -> None:
    """A degraded difference needs no excuse, so its baseline entry is reported as obsolete."""
    weaker = Difference("option", "--json", "--json", None, Impact.DEGRADED, "gone", "help.surface")
    outcome = ruled(differences=(weaker,), expected=("help.surface",))
    assert (outcome.code, [entry.state for entry in outcome.entries]) == (1, ["passes"])


def test_a_tool_that_runs_unasked_is_excused_until_it_asks() -> None:
    """The entry excuses the clause and what differs, and fails the gate once the call is denied."""
    runs = Difference("call", "interactive", "denied", "executed", Impact.BREAKING, "runs unasked", CALL_CLAUSE)
    fails = clause(CALL_CLAUSE, "fail")
    assert ruled(fails, differences=(runs,)).code == 1
    assert ruled(fails, differences=(runs,), expected=(CALL_CLAUSE,)).code == 0
    others = clause("interactive.no-auto-flags", "fail")
    assert ruled(fails, others, differences=(runs,), expected=(CALL_CLAUSE,)).code == 1
    assert ruled(clause(CALL_CLAUSE), expected=(CALL_CLAUSE,)).code == 1


def test_what_was_not_answered_is_unanswered() -> None:
    """The gate is unanswered if either release is unavailable or has a breaking clause without a result."""
    failed = {"reason": "no_executable", "what": "no such version", "hint": ""}
    lost = clause("resume.isolation", "not_run", "interrupted", reason="interrupted")
    assert ruled(failed=failed).code == 2
    assert ruled(old=release("codex@0.160.0", failed=failed)).code == 2
    assert ruled(lost).code == 2
    assert ruled(old=release("codex@0.160.0", lost)).code == 2
    assert ruled(FAILS, lost).code == 1, "what is known to break goes first"


def test_a_clause_that_fell_with_another_is_answered() -> None:
    """A clause that was not run because its prerequisite failed does not make the gate unanswered."""
    fallen = [clause("handle.present", "fail")]
    fallen += [clause(f"handle.{name}", "not_run", needs=["handle.present"]) for name in ("place", "shape")]
    assert [reason.about for reason in ruled(*fallen).reasons] == ["handle.present"]


def test_what_an_excused_failure_left_untested_is_unanswered() -> None:
    """The baseline excuses its clauses alone; a breaking one that needs them and has no entry was not tested."""
    fell = clause("handle.present", "fail"), clause("handle.shape", "not_run", needs=["handle.present"])
    needing = (*fell, clause("resume.same-handle", "not_run", "needs it", needs=["handle.present"]))
    outcome = ruled(*needing, expected=("handle.present",))
    assert (outcome.code, outcome.sentences) == (
        2,
        ("codex@0.170.0: resume.same-handle could not be tested: needs it",),
    )
    both = ruled(*needing, expected=("handle.present", "resume.same-handle"))
    assert (both.code, [entry.state for entry in both.entries]) == (0, ["excuses", "excuses"])
    older = release("codex@0.160.0", *needing)
    assert ruled(*fell, old=older, expected=("handle.present",)).code == 0, "the release in use is no question"


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_clause_that_was_not_run_for_no_reason_is_a_crash(*, interrupted: bool) -> None:
    """A clause that was not run for an unknown reason is a turngate bug: the gate exits with 3."""
    lost = clause("resume.isolation", "not_run", "nobody knows")
    for outcome in (
        ruled(lost, FAILS, interrupted=interrupted),
        ruled(old=release("codex@0.160.0", lost), interrupted=interrupted),
    ):
        assert (outcome.decision.outcome, outcome.code) == ("crashed", 3)
        assert "resume.isolation: not run, and turngate can't say why" in outcome.sentences[0]


def test_an_interrupt_is_no_outcome() -> None:
    """An interrupted gate exits with 130, even if a clause has already failed."""
    assert ruled(FAILS, interrupted=True).code == 130


@each(
    "clauses, differences, mildest, about",
    [
        ((clause("stdin.open", "fail"),), (), "degraded", "stdin.open"),
        ((clause("stream.known-events", "fail"),), (), "degraded", "stream.known-events"),
        ((STALE,), (), "degraded", "stdin.open"),
        ((), (LOST,), "degraded", "option --json"),
        ((clause("stdin.open", "unsupported"),), (UNSUPPORTED,), "degraded", "stdin.open"),
        ((CAVEAT,), (), "caveat", "stdin.open"),
        ((), (DECLARED,), "caveat", "caveat prompt.large cut"),
        ((), (CLAIM,), None, None),
    ],
)
def test_fail_on_says_what_is_against_it(
    clauses: tuple[ClauseResult, ...], differences: tuple[Difference, ...], mildest: str | None, about: str | None
) -> None:
    """--fail-on sets the mildest problem that fails the gate; the baseline excuses it. A changed claim never fails."""
    order = list(FailOn)
    for fail_on in order:
        outcome = ruled(*clauses, differences=differences, fail_on=fail_on)
        is_against = mildest is not None and order.index(fail_on) >= order.index(FailOn(mildest))
        assert (outcome.code, [reason.about for reason in outcome.reasons]) == (
            (1, [about]) if is_against else (0, [])
        ), fail_on
        if is_against:
            (reason,) = outcome.reasons
            excused = ruled(*clauses, differences=differences, fail_on=fail_on, expected=(str(reason.clause),))
            assert (excused.code, [entry.state for entry in excused.entries]) == (0, ["excuses"])


def test_a_caveat_of_which_a_part_is_stale_is_one_reason() -> None:
    """A partly stale deviation is one reason: a caveat under `--fail-on caveat`, otherwise stale."""
    partly = clause("stdin.open", "deviates", "it hangs; stale: cut", action="close standard input", stale=True)
    kinds = [[reason.kind for reason in ruled(partly, fail_on=fail_on).reasons] for fail_on in FailOn]
    assert kinds == [[], ["stale"], ["caveat"]]


def test_caveats_of_clauses_that_were_not_selected_are_no_matter() -> None:
    """With --clause, a deviation of another clause that only the newer release has is neither listed nor red."""
    old, new = ("codex@0.117.0", "codex@0.147.0")  # stdin.open and workspace.cannot-redirect deviate since 0.118.0
    selected = "resume.accepted"
    before, after = ([j.planned(name), j.turn(name), j.clause(selected, release=name)] for name in (old, new))
    report = views.of(before, after, fail_on=FailOn.CAVEAT, clauses=(selected,))
    assert (report.exit_code, report.reasons) == (0, ())
    assert "deviation" not in {row.kind for row in report.differences}
    assert "caveat" not in {action.kind for action in report.actions}
    whole = views.of(views.release(old), views.release(new), fail_on=FailOn.CAVEAT)
    assert {action.about for action in whole.actions if action.kind == "caveat"} >= {"stdin.open"}


def problems() -> dict[str, tuple[list[Event], tuple[str, str, str]]]:
    """Return what the newer release shows in each case, and how each --fail-on judges it."""
    lost = j.clause("resume.isolation", "not_run", detail="the disk is full", reason="machine", evidence=[])
    changed = {
        "broken": (views.fails(), "broken", ("failed", "failed", "failed")),
        "degraded": (views.fails("stdin.open", "hangs"), "degraded", ("warned", "failed", "failed")),
        "stale": (j.clause("prompt.large", stale=True), "compatible", ("passed", "failed", "failed")),
        "caveat": (
            j.clause("stdin.open", "deviates", detail="hangs", action="close it"),
            "compatible",
            ("passed", "passed", "failed"),
        ),
        "unanswered": (lost, "unanswered", ("open", "open", "open")),
        "good": (j.clause("stdin.open"), "compatible", ("passed", "passed", "passed")),
    }
    listed = {
        name: (views.release(views.NEW, event, verdict=verdict), judgements)
        for name, (event, verdict, judgements) in changed.items()
    }
    unasked: list[Event] = [j.planned(views.NEW), j.failed(views.NEW, what="npm is absent")]
    tool = views.release(views.NEW, acted=True)
    return listed | {"not asked": (unasked, ("open",) * 3), "a tool": (tool, ("failed",) * 3)}


def of_text(report: GateReport) -> str:
    """Read the judgement from the first word of the headline and the listed failures."""
    text = "\n".join(line.plain for _, line in report_lines(view(report), None))
    said = re.findall(r"^\S+: (green|red|unanswered)\b", text, re.MULTILINE)
    outcome = {"green": "passed", "red": "failed", "unanswered": "open"}[said[-1]]
    return "warned" if outcome == "passed" and re.search(r"^fail ", text, re.MULTILINE) else outcome


def of_junit(report: GateReport) -> str:
    """Read the judgement from the counts and cases of the only suite."""
    (suite,) = ET.fromstring(junit(view(report)))
    said = [element.text or "" for element in suite.iter("system-out")]
    red = "failed" if int(suite.get("failures", "")) else "open" if int(suite.get("errors", "")) else ""
    return red or ("warned" if any(text.startswith("degraded: ") for text in said) else "passed")


def of_markdown(report: GateReport) -> str:
    """Read the judgement from the headline's symbol and the rows of the differences."""
    text = markdown(view(report))
    outcome = {"✅": "passed", "❌": "failed", "❔": "open"}[text.split()[1]]
    fails = re.search(r"degraded \| clause \S+ \| \S+ \| fail ", text)
    return "warned" if outcome == "passed" and fails else outcome


def of_sarif(report: GateReport) -> str:
    """Read the judgement from the results that are no notes; unanswered clauses have their own rule."""
    (run,) = json.loads(sarif(view(report)))["runs"]
    results = [result for result in run["results"] if result["level"] != "note"]
    judged = {(result["level"], result["ruleId"] == "gate.unanswered") for result in results}
    return "failed" if ("error", False) in judged else "open" if judged == {("error", True)} else _mildest(judged)


def of_annotations(report: GateReport) -> str:
    """Read the judgement from the kinds of annotations."""
    kinds = {
        (line.split()[0].strip(":"), bool(re.search("could not be tested", line)))
        for line in annotations(view(report))
        if not line.startswith("::notice")
    }
    return "failed" if ("error", False) in kinds else "open" if kinds == {("error", True)} else _mildest(kinds)


def _mildest(kinds: set[tuple[str, bool]]) -> str:
    return "warned" if kinds else "passed"


def of_exit_code(report: GateReport) -> str:
    """Read the judgement from the exit code, which is 0 for warnings as well."""
    return {0: "passed", 1: "failed", 2: "open"}[report.exit_code]


@pytest.mark.long
@pytest.mark.parametrize("number, fail_on", list(enumerate(FailOn)))
@pytest.mark.parametrize("problem", list(problems()))
@pytest.mark.parametrize("judge", [of_text, of_junit, of_markdown, of_sarif, of_annotations, of_exit_code])
def test_every_format_gives_a_gate_the_same_judgement(
    judge: Callable[[GateReport], str], problem: str, number: int, fail_on: FailOn
) -> None:
    """Every report format and the exit code give the same judgement."""
    new, judgements = problems()[problem]
    expected = judgements[number]
    if judge is of_exit_code:
        expected = expected.replace("warned", "passed")
    assert judge(views.of(views.release(views.OLD), new, fail_on=fail_on)) == expected
