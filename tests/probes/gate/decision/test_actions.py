"""What an orchestrator must change before it upgrades."""

import pytest

from tests.probes.gate.release_samples import clause, release
from turngate import engine_names
from turngate.contract import load
from turngate_probes.gate.compare import claim_differences
from turngate_probes.gate.decision import actions
from turngate_probes.report.reports import Action, Difference, Impact

CODEX, OPENCODE = load.contract("codex"), load.contract("opencode")
OLD, NEW = release("codex@0.160.0"), release("codex@0.170.0")
HANG = "close standard input, or send the prompt through it"
DECLARED = Difference("deviation", "stdin.open hang", None, "hang", Impact.DEGRADED, HANG, "stdin.open")
HANGS = clause("stdin.open", "deviates", action=HANG)


def reported(*rows: Difference) -> list[tuple[str, str, bool]]:
    """Return the required changes for some differences."""
    return [(action.about, action.text, action.new) for action in actions(OLD, NEW, rows)]


def test_equal_releases_ask_for_nothing() -> None:
    """Equal releases require no changes."""
    assert actions(OLD, NEW, []) == ()


def test_a_caveat_that_the_older_release_had_is_not_new() -> None:
    """A caveat that the older release had too is listed, but not as new."""
    before, after = (release(name, HANGS) for name in ("codex@0.160.0", "codex@0.170.0"))
    assert actions(before, after, []) == (Action("caveat", "stdin.open", HANG, ("codex@0.170.0",)),)


def test_a_new_caveat_is_marked_and_comes_first() -> None:
    """A new caveat is marked as new and comes before old ones, whatever the catalogue's order."""
    known = clause("handle.place", "deviates", action="look for the file")
    listed = actions(release("codex@0.160.0", known), release("codex@0.170.0", known, HANGS), [DECLARED])
    assert [(action.about, action.new) for action in listed] == [("stdin.open", True), ("handle.place", False)]


def test_a_caveat_that_begins_is_new_even_if_it_was_declared_before() -> None:
    """A contract may declare for both what only the newer release does; a flaky one that did not occur is not new."""
    newer = release("codex@0.170.0", HANGS)
    assert [action.new for action in actions(OLD, newer, [])] == [True]
    flaky = release("codex@0.160.0", clause("stdin.open", "pass", action=HANG))
    assert [action.new for action in actions(flaky, newer, [])] == [False]
    untested = release("codex@0.160.0", clause("stdin.open", "not_run", reason="machine"))
    assert [action.new for action in actions(untested, newer, [])] == [False]


def test_only_the_new_part_of_a_caveat_is_new() -> None:
    """If a clause deviates in one more way, only that part is new."""
    also = clause("stdin.open", "deviates", action=f"bound each turn by a deadline; {HANG}")
    before = release("codex@0.160.0", clause("stdin.open", "deviates", action="bound each turn by a deadline"))
    listed = actions(before, release("codex@0.170.0", also), [DECLARED])
    assert [(action.text, action.new) for action in listed] == [(HANG, True), ("bound each turn by a deadline", False)]


def test_a_caveat_with_a_semicolon_is_told_once() -> None:
    """A semicolon joins the actions of a clause, so no bundled action has one, and others are split."""
    text = "switch it off; else set a deadline"
    row = Difference("deviation", "stdin.open hang", None, "hang", Impact.DEGRADED, text, "stdin.open")
    listed = actions(OLD, release("codex@0.170.0", clause("stdin.open", "deviates", action=text)), [row])
    assert [(action.text, action.new) for action in listed] == [("switch it off", True), ("else set a deadline", True)]
    bundled = (load.contract(engine).at() for engine in engine_names())
    assert not [d.action for contract in bundled for d in contract.deviations if "; " in d.action]


def test_a_new_caveat_that_did_not_show_is_listed() -> None:
    """A newly declared caveat is listed even if it was not observed, unless it is stale."""
    assert reported(DECLARED) == [("stdin.open", HANG, True)]
    stale = release("codex@0.170.0", clause("stdin.open", stale=True))
    assert actions(OLD, stale, [DECLARED]) == ()


def test_what_the_contract_says_otherwise_is_a_change() -> None:
    """Changed flags, arguments, options and extraction rules are required changes."""
    was, now = OPENCODE.at("1.17.0"), OPENCODE.at("1.18.33")
    assert ("launch.auto", "pass --auto instead of --dangerously-skip-permissions", True) in reported(
        *claim_differences(was, now)
    )
    rows = [
        Difference("claim", "auto_flags: --trust", None, "--trust", Impact.DEGRADED, "acts", None),
        Difference("claim", "options: --old", "--old", None, Impact.DEGRADED, "gone", None),
        Difference("claim", "handle", '{"field":"a"}', '{"field":"b"}', Impact.DEGRADED, "read", None),
    ]
    assert reported(*rows) == [
        ("auto_flags", "treat --trust as an auto-approve flag", True),
        ("options", "stop passing --old", True),
        ("handle", 'change {"field":"a"} to {"field":"b"}', True),
    ]


@pytest.mark.parametrize(
    "before, after, text, new",
    [
        ("--oss", None, "check whether you depend on it: why", True),
        ("denied", "executed", "expect executed instead of denied: why", True),
        ("executed", "executed", "expect executed: why", False),
    ],
)
def test_a_degraded_surface_is_a_change(before: str, after: str | None, text: str, *, new: bool) -> None:
    """A degraded surface is a required change; it is new unless the older release behaved the same."""
    assert reported(Difference("call", "auto", before, after, Impact.DEGRADED, "why", None)) == [
        ("call auto", text, new)
    ]


def test_a_clause_without_its_facility_is_a_change() -> None:
    """A facility that the release no longer has is a required change."""
    lost = Difference("clause", "stdin.open", "pass", "unsupported", Impact.DEGRADED, "it takes no input", "stdin.open")
    assert reported(lost) == [("stdin.open", "do without it: it takes no input", True)]


def test_a_degraded_clause_that_fails_can_not_be_relied_on() -> None:
    """Only failing degraded clauses are required changes, not breaking or informative ones."""
    fails = [clause(name, "fail") for name in ("help.surface", "handle.present", "stream.known-events")]
    (action,) = actions(OLD, release("codex@0.170.0", *fails), [])
    assert (action.about, action.new) == ("help.surface", True)
    assert action.text == "do not rely on it: if a flag is renamed or removed, every run ends with a usage error."
    (same,) = actions(release("codex@0.160.0", *fails), release("codex@0.170.0", *fails), [])
    assert not same.new


def test_of_a_list_only_the_words_that_differ_are_an_action() -> None:
    """A list can be longer than a line."""
    row = Difference("protocol", "item x: a", "a|b", "b|c", Impact.DEGRADED, "gone: a; new: c", None)
    assert reported(row) == [("protocol item x: a", "expect another list: gone: a; new: c", True)]
