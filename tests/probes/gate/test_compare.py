"""Comparing the observations of two releases."""

from typing import Any

from msgspec.structs import replace

from tests.probes.gate.release_samples import CONTRACT, clause, new, old
from tests.probes.report import journals
from turngate.history import differing
from turngate_probes.gate.compare import CALL_CLAUSE, ReleaseSurface, Side, differences, surface
from turngate_probes.journal.events import PageEvent
from turngate_probes.report.reports import Difference, Impact

USAGE = "item.completed: item.usage"
PAGE = ["--json", "--oss", "--other"]


def by_subject(before: Side, after: Side) -> dict[str, Difference]:
    """Return the differences by subject, according to codex's contract."""
    return {row.subject: row for row in differences(before, after, CONTRACT)}


def shown_by(names: list[str] | None = None, **turns: list[str]) -> ReleaseSurface:
    """Return the surface of one help page and these turns; each turn is a list of record kinds, some with a key."""
    kinds = {name: [word for word in reported if ":" not in word] for name, reported in turns.items()}
    keys = {name: [word for word in reported if ":" in word] for name, reported in turns.items()}
    return ReleaseSurface({"help-1": names} if names else {}, kinds, keys)


def access(interactive: list[str], outcome: str = "denied", mode: str = "interactive") -> dict[str, Any]:
    """Return the tool access of one mode."""
    call = {"tool": "exec_command", "outcome": outcome, "exit_code": 0, "seconds": 1.0, "told": "no"}
    return {"interactive": None, "auto": None} | {mode: {"tools": interactive, "call": call}}


def test_equal_releases_differ_in_nothing() -> None:
    """Equal releases have no differences."""
    shown = shown_by(PAGE, first=["turn.started", USAGE])
    same: dict[str, Any] = {"surface": shown, "tool_access": access(["a"])}
    assert differences(old(**same), new(**same), CONTRACT) == []


def test_a_clause_that_fails_now_is_told_with_those_that_need_it() -> None:
    """A newly failing clause and its dependents are breaking, with the newer release's detail."""
    needing = clause("resume.same-handle", "not_run", "needs it", needs=["resume.accepted"])
    fell = clause("resume.accepted", "fail", "exit code 2"), needing
    changes = by_subject(old(), new(*fell))
    assert changes.keys() == {"resume.accepted", "resume.same-handle"}
    assert {row.impact for row in changes.values()} == {Impact.BREAKING}
    assert (changes["resume.accepted"].before, changes["resume.accepted"].after) == ("pass", "fail")
    assert changes["resume.accepted"].detail == "exit code 2"


def test_a_clause_that_was_not_asked_before_is_no_difference() -> None:
    """A clause that only one release was tested for is not a difference."""
    assert by_subject(old(), new(clause("live.context-recalled", "fail"))) == {}


def test_what_is_asked_of_both_at_once_is_expected_to_hold() -> None:
    """A failing cross-release clause is a difference, although the older release has no result for it."""
    changes = by_subject(old(), new(clause("upgrade.resume", "fail"), clause("rollback.resume", "fail")))
    assert {name: row.impact for name, row in changes.items()} == {
        "upgrade.resume": Impact.BREAKING,
        "rollback.resume": Impact.DEGRADED,
    }


def test_names_on_help_pages() -> None:
    """Losing an option is breaking if callers may pass it, degraded if turns still work, and otherwise harmless."""
    changes = by_subject(old(surface=shown_by(PAGE)), new(surface=shown_by(["--brand-new"])))
    assert {name: row.impact for name, row in changes.items()} == {
        "--oss": Impact.BREAKING,
        "--json": Impact.DEGRADED,
        "--brand-new": Impact.ADDITIVE,
        "--other": Impact.NONE,
    }
    refused = clause("resume.accepted", "fail")
    changes = by_subject(old(surface=shown_by(PAGE)), new(refused, surface=shown_by(["--oss", "--other"])))
    assert changes["--json"].impact is Impact.BREAKING


def test_what_no_selected_clause_tests_is_not_said_to_break_turns() -> None:
    """With --clause, a name that turns need may be gone from the help pages without any turn that could show it."""
    before, after = old(surface=shown_by(PAGE)), new(surface=shown_by(["--oss", "--other"]))
    selected = tuple(each for each in after.release.clauses if each.id == "version.readable")
    few = replace(after, release=replace(after.release, clauses=selected))
    row = by_subject(before, few)["--json"]
    assert (row.impact, row.detail) == (Impact.DEGRADED, "it is no longer on any help page")


def test_another_name_of_an_option_is_used_like_its_first() -> None:
    """Callers may pass a short name; without it they can still pass the long one, if the release has that."""
    before = old(surface=shown_by(["--cd", "-C", "--other", "-o"]))
    changes = by_subject(before, new(surface=shown_by(["--cd"])))
    assert (changes["-C"].impact, changes["-o"].impact) == (Impact.DEGRADED, Impact.NONE)
    assert "its long name --cd is still accepted" in changes["-C"].detail
    gone = by_subject(before, new(surface=shown_by(["-o"])))
    assert {name: row.impact for name, row in gone.items()} == {
        "--cd": Impact.DEGRADED,
        "-C": Impact.BREAKING,
        "--other": Impact.NONE,
    }
    hidden = by_subject(before, replace(new(surface=shown_by(["-o"])), hidden=frozenset({"--cd", "--other"})))
    assert hidden["-C"].impact is Impact.DEGRADED


def test_an_option_that_could_not_be_tried_is_not_said_to_be_gone() -> None:
    """It is a change to look at, not a break."""
    after = replace(new(surface=shown_by(["--json", "--other"])), hidden=None)
    row = by_subject(old(surface=shown_by(PAGE)), after)["--oss"]
    assert (row.impact, row.detail.endswith("whether it is still accepted could not be tried")) == (
        Impact.DEGRADED,
        True,
    )


def test_records_of_the_same_turns_alone_are_compared() -> None:
    """Losing a record kind that the contract reads is breaking. Only turns that both releases ran are compared."""
    before = old(surface=shown_by(first=["thread.started", "thread.started: thread_id"], other=["error"]))
    gone = new(clause("handle.present", "fail"), surface=shown_by(first=["thread.begun", "thread.begun: id"]))
    changes = by_subject(before, gone)
    assert changes["thread.started"].impact is Impact.BREAKING
    assert changes["thread.begun"].impact is Impact.ADDITIVE
    assert changes.keys() == {"thread.started", "thread.begun", "handle.present"}


def test_a_key_that_is_read_and_gone_is_told_once() -> None:
    """A missing key is reported once, without the keys below it."""
    kinds = ["item.completed", "item.completed: item", "item.completed: item.text", "item.completed: item.text.part"]
    before, after = shown_by(first=kinds), shown_by(first=kinds[:2])
    changes = by_subject(old(surface=before), new(clause("text.imitation", "fail"), surface=after))
    assert changes["item.completed: item.text"].impact is Impact.BREAKING
    assert changes.keys() == {"item.completed: item.text", "text.imitation"}
    extra = shown_by(first=[*kinds, USAGE])
    assert by_subject(old(surface=before), new(surface=extra))[USAGE].impact is Impact.ADDITIVE


def test_tools_and_what_becomes_of_a_call() -> None:
    """Losing the tool that the contract calls is degraded, losing others harmless, and acting unasked breaking."""
    before, after = access(["exec_command", "view"]), access(["search"], "executed")
    changes = by_subject(old(tool_access=before), new(tool_access=after))
    assert changes["exec_command (interactive)"].impact is Impact.DEGRADED
    assert changes["view (interactive)"].impact is Impact.NONE
    assert changes["search (interactive)"].impact is Impact.ADDITIVE
    assert changes["interactive"].impact is Impact.BREAKING


def test_a_tool_that_the_model_can_search_for_is_not_gone() -> None:
    """It moved behind the search; one that was not offered before says nothing."""
    names = {"a": "", "b": "only by a search"}
    assert [*differing("tool", {"a": ""}, names)] == [*differing("tool", names, {"a": ""})] == []
    assert [*differing("tool", {"b": ""}, {"b": names["b"]})] == [("b", "", names["b"])]
    after = access(["search"])
    after["interactive"]["searched"] = ["b"]
    changes = by_subject(old(tool_access=access(["a", "b"])), new(tool_access=after))
    rows = {name: (row.after, row.detail) for name, row in changes.items()}
    assert rows["a (interactive)"][0] is None
    assert rows["b (interactive)"] == (
        "only by a search",
        "no longer offered to the model in mode interactive, which can search for it",
    )


def test_a_tool_that_runs_unasked_now_is_breaking() -> None:
    """It belongs to the clause that judges it, which also judges a release that did so before."""
    runs = access(["exec_command"], "executed")
    call = by_subject(old(tool_access=access(["exec_command"])), new(tool_access=runs))["interactive"]
    assert (call.impact, call.clause, call.before, call.after) == (Impact.BREAKING, CALL_CLAUSE, "denied", "executed")
    for before in (None, runs):
        assert differences(old(tool_access=before), new(tool_access=runs), CONTRACT) == []
    auto = access(["exec_command"], "executed", "auto")
    assert differences(old(tool_access=None), new(tool_access=auto), CONTRACT) == []


def test_another_exit_code_of_the_same_outcome_is_degraded() -> None:
    """A denied call that ends with another exit code is degraded, because callers may rely on the code."""
    before, after = access(["exec_command"]), access(["exec_command"])
    after["interactive"]["call"]["exit_code"] = 1
    changes = by_subject(old(tool_access=before), new(tool_access=after))
    assert changes.keys() == {"interactive exit code"}
    reported = changes["interactive exit code"]
    assert (reported.before, reported.after, reported.impact) == ("0", "1", Impact.DEGRADED)


def test_a_help_page_that_is_empty_now_has_lost_all_its_names() -> None:
    """A help page that is now empty has lost all its options; a page that was not requested has lost none."""
    shown = [surface(page, "codex@0.160.0").names for page in ([event(PAGE)], [event([])])]
    changes = by_subject(old(surface=ReleaseSurface(shown[0], {}, {})), new(surface=ReleaseSurface(shown[1], {}, {})))
    assert changes["--oss"].impact is Impact.BREAKING
    assert changes["--json"].impact is Impact.DEGRADED
    assert by_subject(old(surface=ReleaseSurface(shown[0], {}, {})), new()) == {}, (
        "a page that was not asked for shows nothing"
    )


def event(names: list[str]) -> PageEvent:
    """Return the journal event of a help page."""
    output = {"bytes": 0, "excerpt": ""}
    ended = {"argv": [], "exit_code": 0, "ended": "exit", "cpu_seconds": 0, "stdout": output, "stderr": output}
    place = {"event": "page", "release": "codex@0.160.0", "case": "static", "step": "help-1"}
    page: PageEvent = journals.read(place | ended | {"names": names})
    return page


def test_tools_are_compared_under_the_models_that_releases_take_by_themselves() -> None:
    """Under a model that turns ask for, or that isn't known, they depend on more than the release."""

    def models(own: str | None, asked: str | None = "other") -> dict[str, Any]:
        return {"own": own, "depends_on": own and "the release", "asked": asked}

    before, after = access(["a"]), access(["b"])
    earlier, later = (
        old(tool_access=before, models=models("gpt-1")),
        new(tool_access=after, models=models("gpt-2")),
    )
    row, *tools = differences(earlier, later, CONTRACT)
    assert (row.kind, row.before, row.after, row.impact) == ("model", "gpt-1", "gpt-2", Impact.NONE)
    assert [(tool.kind, tool.subject) for tool in tools] == [("tool", "a (interactive)"), ("tool", "b (interactive)")]
    # a result of before models were kept, or one with a model that turns ask for
    for unlike in (new(tool_access=after), new(tool_access=after, models=models(None, "stub"))):
        assert {each.kind for each in differences(earlier, unlike, CONTRACT)} == {"model"}
    alike = new(tool_access=after, models=models("gpt-1"))
    assert {each.kind for each in differences(earlier, alike, CONTRACT)} == {"tool"}


def test_an_option_that_is_still_accepted_is_not_gone() -> None:
    """It has no consequences, whatever the contract does with it."""
    later = replace(new(surface=shown_by(["--brand-new"])), hidden=frozenset({"--json"}))
    row = by_subject(old(surface=shown_by(["--json"])), later)["--json"]
    assert (row.before, row.after, row.impact) == ("--json", "not on the help page", Impact.NONE)


def test_what_a_release_lists_is_compared_by_what_the_contract_uses() -> None:
    """A lost command of a kept process is breaking, a new one additive; a list that one side lacks says nothing."""
    lists = [
        {
            "command/any list": {"codex app-server": "", "codex x": "", "codex exec": ""},
            "feature/any list": {},
        },
        {"command/any list": {"codex exec": "", "codex y": "", "codex y x": ""}, "feature/any list": {"goals": ""}},
    ]
    before, after = (ReleaseSurface({}, {}, {}, listed) for listed in lists)
    changes = by_subject(old(surface=before), new(surface=after))
    assert {name: (row.kind, row.impact, row.after) for name, row in changes.items()} == {
        "codex app-server": ("command", Impact.BREAKING, None),
        "codex x": ("command", Impact.NONE, "codex y x"),
        "codex y": ("command", Impact.ADDITIVE, ""),
        "goals": ("feature", Impact.ADDITIVE, ""),
    }
    assert by_subject(old(surface=before), new()) == {}


def test_a_protocol_is_compared_by_what_turngate_uses() -> None:
    """What is used and gone or newly required is breaking; then come what is required, gone and new."""
    lists = [
        {
            "request turn/start": "",
            "request turn/start: input": "required",
            "request x": "",
            "request x: a": "optional: b|c",
            "item agentMessage": "",
            "item agentMessage: text": "required",
            "item y": "",
        },
        {
            "request turn/start": "",
            "request turn/start: input": "required",
            "request turn/start: token": "required",
            "request x": "",
            "request x: a": "required: b",
            "item agentMessage": "",
            "item agentMessage: text": "optional",
            "item z": "",
        },
    ]
    before, after = (ReleaseSurface({}, {}, {}, {"protocol/any list": listed}) for listed in lists)
    rows = differences(old(surface=before), new(surface=after), CONTRACT)
    assert [(row.subject, row.impact) for row in rows] == [
        ("item agentMessage: text", Impact.BREAKING),
        ("request turn/start: token", Impact.BREAKING),
        ("request x: a", Impact.NONE),
        ("item y", Impact.NONE),
        ("item z", Impact.ADDITIVE),
    ]
    narrower = ReleaseSurface({}, {}, {}, {"protocol/any list": {"request x: a": "optional: b"}})
    (row,) = differences(old(surface=before), new(surface=narrower), CONTRACT)[-1:]
    assert row.impact is Impact.NONE


def test_of_two_lists_only_what_differs_is_told() -> None:
    """A list can be longer than a line."""
    lists = ({"item x: a": f"{need}: {'b|' * 90}{word}|d"} for need, word in (("required", "c"), ("required", "e|f")))
    before, after = (ReleaseSurface({}, {}, {}, {"protocol/any list": listed}) for listed in lists)
    (row,) = differences(old(surface=before), new(surface=after), CONTRACT)
    assert row.detail == "gone: c; new: e, f"
