"""Naming the release in which a difference between two others began."""

from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from tests.contracts.test_history import FRESH, PASS, known, release
from tests.probes.gate.release_samples import old
from tests.tables import each
from turngate import history
from turngate.contract.clauses import Result
from turngate.contract.verdict import Verdict
from turngate.history import KnownResult
from turngate_probes.gate.beginnings import published, with_beginnings
from turngate_probes.report.reports import Difference, Impact


def row(kind: Any, subject: str, before: str | None, after: str | None) -> Difference:
    """Return a difference."""
    return Difference(kind, subject, before, after, Impact.NONE, "it differs", None)


@pytest.fixture(autouse=True)
def _history(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = [
        {"option/codex --help": {}, "record/first turn": {"a": ""}, "tool/mode auto": {"sh": ""}},
        {"option/codex --help": {"--x": ""}, "record/first turn": {"a": ""}, "tool/mode auto": {"sh": ""}},
        {"option/codex --help": {"--x": ""}, "record/first turn": {"a": "", "a: b": "null"}, "tool/mode auto": {}},
    ]
    facts[0] |= {"feature/any list": {}, "model/any list": {}}
    facts[1] |= {"feature/any list": {"goals": ""}, "model/any list": {"m": ""}}
    facts[1]["default model/any turn"], facts[2]["default model/any turn"] = (
        {"default model": "m"},
        {"default model": "n"},
    )
    clauses = [{"stdin.open": PASS}, {"stdin.open": PASS}, {"stdin.open": FRESH}]
    steps = [release(f"1.{n}.0", facts=f, clauses=c) for n, (f, c) in enumerate(zip(facts, clauses, strict=True))]
    ours = known(*steps, published=("1.1.5", "1.1.6"))
    monkeypatch.setattr(history, "load", {"codex": ours}.__getitem__)


@each(
    "difference, began",
    [
        (row("option", "--x", None, "--x"), "1.1.0"),
        (row("option", "--x", "--x", None), UNSET),
        (row("option", "--y", None, "--y"), UNSET),
        (row("feature", "goals", None, ""), "1.1.0"),
        (row("listed-model", "m", None, ""), "1.1.0"),
        (row("model", "model of the turns", "m", "n"), "one of 1.1.5 to 1.2.0"),
        (row("model", "model of the turns", "m", "o"), UNSET),
        (row("key", "a: b", None, "a: b"), "one of 1.1.5 to 1.2.0"),
        (row("tool", "sh (auto)", "sh", None), "one of 1.1.5 to 1.2.0"),
        (row("tool", "sh (interactive)", "sh", None), UNSET),
        (row("clause", "stdin.open", "pass", "deviates"), "one of 1.1.5 to 1.2.0"),
        (row("deviation", "stdin.open fresh-session", None, "fresh-session"), "one of 1.1.5 to 1.2.0"),
        (row("claim", "launch.start", "a", "b"), UNSET),
    ],
)
def test_a_difference_begins_where_the_history_has_it(difference: Difference, began: Any) -> None:
    """Untested releases before it may have brought it, too; the text that people read says so."""
    (named,) = with_beginnings([difference], "codex", "1.0.0", "1.2.0")
    assert named.began == began
    assert named.told == ("it differs" if began is UNSET else f"it differs (since {began})")


def test_no_difference_begins_before_the_older_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """The history doesn't know of the older release what the gate has just tested."""
    steps = (
        release("1.0.0", clauses={"stdin.open": PASS}),
        release("1.1.0"),
        release("1.2.0", clauses={"stdin.open": FRESH}),
    )
    ours = known(*steps, published=("1.0.5", "1.1.5"))
    monkeypatch.setattr(history, "load", {"codex": ours}.__getitem__)
    (named,) = with_beginnings([row("clause", "stdin.open", "pass", "deviates")], "codex", "1.1.0", "1.2.0")
    assert named.began == "one of 1.1.5 to 1.2.0"


def test_what_a_vendor_publishes_elsewhere_is_known_from_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    """No probe sees it; a release that the history lacks has none."""
    types = {"protocol/type file": {"request interrupt": ""}}
    ours = known(release("1.1.0", facts=types | {"feature/any list": {"goals": ""}}))
    monkeypatch.setattr(history, "load", {"codex": ours}.__getitem__)
    report = old().release
    assert published(replace(report, version="1.1.0")) == types
    assert published(replace(report, version="1.2.0")) == published(replace(report, version=None)) == {}


def test_only_what_lies_between_both_counts() -> None:
    """A change before the older release is not the beginning, and an unknown engine has none."""
    (named,) = with_beginnings([row("option", "--x", None, "--x")], "codex", "1.1.0", "1.2.0")
    assert named.began is UNSET
    assert with_beginnings([named], "mine", "1.0.0", "1.2.0") == [named]
    assert with_beginnings([named], "codex", None, "1.2.0") == [named]


def test_no_release_began_what_an_earlier_set_did_not_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Releases that were tested before a clause existed don't say that the next one changed it."""
    failing = {"stdin.open": PASS, "interactive.tool-call": KnownResult(Result.FAIL)}
    older = [release(f"1.{n}.0", clauses={"stdin.open": PASS}) for n in range(2)]
    newer = release("1.2.0", Verdict.BROKEN, clauses=failing, clause_set="2026-12")
    monkeypatch.setattr(history, "load", {"codex": known(*older, newer)}.__getitem__)
    (named,) = with_beginnings([row("clause", "interactive.tool-call", "pass", "fail")], "codex", "1.0.0", "1.2.0")
    assert named.began is UNSET
