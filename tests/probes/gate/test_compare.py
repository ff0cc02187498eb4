"""Comparing what two releases showed."""

from typing import Any

from tests.probes.gate.release_samples import CONTRACT, clause, new, old
from tests.probes.report import journals
from turngate_probes.gate.baseline import UNASKED
from turngate_probes.gate.compare import Side, differences, unasked
from turngate_probes.gate.survey import ReleaseSurface
from turngate_probes.gate.survey import survey as read
from turngate_probes.journal.events import PageEvent
from turngate_probes.report.gate_structs import Difference, Impact

USAGE = "item.completed: item.usage"
PAGE = ["--json", "--oss", "--other"]


def by_subject(before: Side, after: Side) -> dict[str, Difference]:
    """Compare by codex's contract."""
    return {each.subject: each for each in differences(before, after, CONTRACT)}


def survey(names: list[str] | None = None, **turns: list[str]) -> ReleaseSurface:
    """What one help page and these turns showed, each as kinds, with a key for those that have one."""
    kinds = {name: [each for each in told if ":" not in each] for name, told in turns.items()}
    keys = {name: [each for each in told if ":" in each] for name, told in turns.items()}
    return ReleaseSurface({"help-1": names} if names else {}, kinds, keys)


def access(interactive: list[str], outcome: str = "denied", mode: str = "interactive") -> dict[str, Any]:
    """The tool access of one mode."""
    call = {"tool": "exec_command", "outcome": outcome, "exit_code": 0, "seconds": 1.0, "told": "no"}
    return {"interactive": None, "auto": None} | {mode: {"tools": interactive, "call": call}}


def test_equal_releases_differ_in_nothing() -> None:
    """Nothing comes out where nothing differs."""
    shown = survey(PAGE, first=["turn.started", USAGE])
    same: dict[str, Any] = {"survey": shown, "tool_access": access(["a"])}
    assert differences(old(**same), new(**same), CONTRACT) == []


def test_a_clause_that_fails_now_is_told_with_those_that_need_it() -> None:
    """Both are breaking, and the detail is that of the newer release."""
    needing = clause("resume.same-handle", "not_run", "needs it", needs=["resume.accepted"])
    fell = clause("resume.accepted", "fail", "exit code 2"), needing
    found = by_subject(old(), new(*fell))
    assert found.keys() == {"resume.accepted", "resume.same-handle"}
    assert {each.impact for each in found.values()} == {Impact.BREAKING}
    assert (found["resume.accepted"].before, found["resume.accepted"].after) == ("pass", "fail")
    assert found["resume.accepted"].detail == "exit code 2"


def test_a_clause_that_was_not_asked_before_is_no_difference() -> None:
    """A clause that one side alone has says nothing of a change."""
    assert by_subject(old(), new(clause("live.context-recalled", "fail"))) == {}


def test_what_is_asked_of_both_at_once_is_expected_to_hold() -> None:
    """A lost session is a difference, though no older answer says so."""
    found = by_subject(old(), new(clause("upgrade.resume", "fail"), clause("rollback.resume", "fail")))
    assert {name: each.impact for name, each in found.items()} == {
        "upgrade.resume": Impact.BREAKING, "rollback.resume": Impact.DEGRADED,
    }  # fmt: skip


def test_names_on_help_pages() -> None:
    """What callers may pass breaks, what turns still run with degrades, the rest costs nothing."""
    found = by_subject(old(survey=survey(PAGE)), new(survey=survey(["--brand-new"])))
    assert {name: each.impact for name, each in found.items()} == {
        "--oss": Impact.BREAKING, "--json": Impact.DEGRADED, "--brand-new": Impact.ADDITIVE, "--other": Impact.NONE,
    }  # fmt: skip
    refused = clause("resume.accepted", "fail")
    found = by_subject(old(survey=survey(PAGE)), new(refused, survey=survey(["--oss", "--other"])))
    assert found["--json"].impact is Impact.BREAKING


def test_records_of_the_same_turns_alone_are_compared() -> None:
    """A kind that went breaks where turns are read by it; a turn that only one side has shows nothing."""
    before = old(survey=survey(first=["thread.started", "thread.started: thread_id"], other=["error"]))
    gone = new(clause("handle.present", "fail"), survey=survey(first=["thread.begun", "thread.begun: id"]))
    found = by_subject(before, gone)
    assert found["thread.started"].impact is Impact.BREAKING
    assert found["thread.begun"].impact is Impact.ADDITIVE
    assert found.keys() == {"thread.started", "thread.begun", "handle.present"}


def test_a_key_that_is_read_and_gone_is_told_once() -> None:
    """What stands below a key that went is not told apart."""
    kinds = ["item.completed", "item.completed: item", "item.completed: item.text", "item.completed: item.text.part"]
    before, after = survey(first=kinds), survey(first=kinds[:2])
    found = by_subject(old(survey=before), new(clause("text.imitation", "fail"), survey=after))
    assert found["item.completed: item.text"].impact is Impact.BREAKING
    assert found.keys() == {"item.completed: item.text", "text.imitation"}
    extra = survey(first=[*kinds, USAGE])
    assert by_subject(old(survey=before), new(survey=extra))[USAGE].impact is Impact.ADDITIVE


def test_tools_and_what_becomes_of_a_call() -> None:
    """The tool that the contract calls matters, others do not; acting unasked breaks."""
    before, after = access(["exec_command", "view"]), access(["search"], "executed")
    found = by_subject(old(tool_access=before), new(tool_access=after))
    assert found["exec_command (interactive)"].impact is Impact.DEGRADED
    assert found["view (interactive)"].impact is Impact.NONE
    assert found["search (interactive)"].impact is Impact.ADDITIVE
    assert found["interactive"].impact is Impact.BREAKING


def test_a_tool_that_runs_unasked_breaks_unless_it_did_before() -> None:
    """Denied before, unseen before, or with nothing to compare: a user is bypassed, and was not known to be."""
    runs = access(["exec_command"], "executed")
    impacts = ((None, Impact.BREAKING), (access(["exec_command"]), Impact.BREAKING), (runs, Impact.DEGRADED))
    for before, impact in impacts:
        found = by_subject(old(tool_access=before), new(tool_access=runs))["interactive"]
        assert (found.impact, found.clause) == (impact, UNASKED)
    assert (found.before, found.after) == ("executed", "executed")
    assert [each.subject for each in unasked(new(tool_access=runs).release)] == ["interactive"]
    auto = access(["exec_command"], "executed", "auto")
    assert differences(old(tool_access=None), new(tool_access=auto), CONTRACT) == []
    assert unasked(new(tool_access=auto).release) == unasked(new(tool_access=None).release) == []


def test_another_exit_code_of_the_same_outcome_is_degraded() -> None:
    """Whoever goes by the code of a turn whose call was denied takes it for another."""
    before, after = access(["exec_command"]), access(["exec_command"])
    after["interactive"]["call"]["exit_code"] = 1
    found = by_subject(old(tool_access=before), new(tool_access=after))
    assert found.keys() == {"interactive exit code"}
    told = found["interactive exit code"]
    assert (told.before, told.after, told.impact) == ("0", "1", Impact.DEGRADED)


def test_a_help_page_that_is_empty_now_has_lost_all_its_names() -> None:
    """It was asked for; what callers may pass breaks."""
    shown = [read(page, "codex@0.160.0").names for page in ([event(PAGE)], [event([])])]
    found = by_subject(old(survey=ReleaseSurface(shown[0], {}, {})), new(survey=ReleaseSurface(shown[1], {}, {})))
    assert found["--oss"].impact is Impact.BREAKING
    assert found["--json"].impact is Impact.DEGRADED
    assert by_subject(old(survey=ReleaseSurface(shown[0], {}, {})), new()) == {}, (
        "a page that was not asked for shows nothing"
    )


def event(names: list[str]) -> PageEvent:
    """A help page in a journal."""
    output = {"bytes": 0, "excerpt": ""}
    ended = {"argv": [], "exit_code": 0, "ended": "exit", "cpu_seconds": 0, "stdout": output, "stderr": output}
    place = {"event": "page", "release": "codex@0.160.0", "case": "static", "step": "help-1"}
    page: PageEvent = journals.read(place | ended | {"names": names})
    return page
