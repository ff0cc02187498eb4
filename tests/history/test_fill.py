"""Which releases lack results, and how results are added to a history."""

import os
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.contracts.test_history import PASS, known, release
from tests.probes.report import journals as j
from tests.tables import each
from tests.tools.history import fill
from tests.tools.history.fill import missing, recent, with_journal
from turngate.contract import load
from turngate.contract.clauses import NEWEST_SET, Result
from turngate.contract.verdict import Verdict
from turngate.history import History, KnownResult
from turngate_probes.journal.journal import Journal

WHOLE = {clause.id: PASS for clause in load.catalogue().at_level("static", "hermetic")}
TODAY = f"{datetime.now(UTC):%Y-%m-%d}"


def journal(folder: Path, *clauses: Any, selected: tuple[str, ...] = (), verdict: str | None = "compatible") -> Path:
    """Write the journal of codex 0.169.0."""
    path = folder / "codex@0.169.0.ndjson"
    events = (j.started(clauses=selected), j.planned(), *clauses, j.finished(verdict=verdict))
    with closing(Journal(path)) as kept:
        for event in events:
            kept.add(event)
    return path


def test_a_release_is_missing_until_all_clauses_were_tested() -> None:
    """Missing is what is unknown, older than a clause, from before dates were kept, or could not be tested."""
    old = release("1.0.0", clauses={"stdin.open": PASS}, measured=TODAY)
    undated = release("1.1.0", clauses=WHOLE)
    complete = release("1.2.0", clauses=WHOLE, measured=TODAY)
    absent = release("1.3.0", Verdict.UNANSWERED, measured=TODAY)
    ours, wanted = known(old, undated, complete, absent), ["1.4.0", "1.3.0", "1.2.0", "1.1.0", "1.0.0"]
    assert missing(ours, wanted, ()) == ["1.4.0", "1.3.0", "1.1.0", "1.0.0"]
    assert missing(ours, wanted, ("prompt.large",)) == ["1.4.0", "1.3.0", "1.0.0"]


def test_recent_releases_come_newest_first() -> None:
    """Releases that are too old, or whose date is unknown, are left out."""
    long_ago = f"{datetime.now(UTC) - timedelta(days=200):%Y-%m-%d}"
    dates = {"1.0.0": long_ago, "1.1.0": TODAY, "1.2.0": None, "1.3.0": TODAY}
    assert recent(replace(known(), published=dates), 180) == ("1.3.0", "1.1.0")


def test_results_are_added(tmp_path: Path) -> None:
    """A release's results replace earlier ones; selected clauses are added to them."""
    whole = with_journal(known(), journal(tmp_path, *j.clauses()))
    (first,) = whole.releases
    assert (first.verdict, {*first.clauses}) == (Verdict.COMPATIBLE, {clause.id for clause in j.HERMETIC})
    one = journal(tmp_path, j.clause("stdin.open", "fail"), selected=("stdin.open",), verdict=None)
    (after,) = with_journal(whole, one).releases
    assert after.verdict is Verdict.COMPATIBLE
    assert {name for name in first.clauses if after.clauses[name] != first.clauses[name]} == {"stdin.open"}


@each("result, verdict", [(Result.PASS, Verdict.COMPATIBLE), (Result.FAIL, Verdict.DEGRADED)])
def test_a_release_with_all_long_clauses_has_their_level(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, result: Result, verdict: Verdict
) -> None:
    """Once each clause about long sessions was added to a release, its verdict is that of level long."""
    monkeypatch.setattr(fill, "read", lambda _: ())
    ours = known(release("1.0.0", clauses=WHOLE, clause_set=NEWEST_SET))
    for clause, level in (("resume.long-session", "hermetic"), ("resume.after-compaction", "long")):
        new = release("1.0.0", None, clauses={clause: KnownResult(result)})
        monkeypatch.setattr(fill, "known_release", lambda _, new=new: new)
        ours = with_journal(ours, tmp_path)
        assert ours.releases[0].level == level
    assert ours.releases[0].verdict is verdict


def test_what_a_release_does_under_another_model_replaces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results of selected clauses are added, whatever their model; facts only to those of the same, except lists."""
    ours = known(release("1.0.0", clauses=WHOLE, facts={"tool/mode auto": {"shell": ""}}))
    before = ours.releases[0]
    for model, tools in (("other", {"shell": ""}), (before.model, {"exec": ""})):
        facts = {"tool/mode auto": {"exec": ""}, "command/any list": {"x a": ""}}
        new = release("1.0.0", None, clauses={"stdin.open": PASS}, facts=facts, model=model)
        monkeypatch.setattr(fill, "read", lambda _: ())
        monkeypatch.setattr(fill, "known_release", lambda _, new=new: new)
        (after,) = with_journal(ours, tmp_path).releases
        assert (after.facts, after.model) == (facts | {"tool/mode auto": tools}, before.model)


def test_what_a_release_does_under_its_default_model_replaces_what_a_stand_in_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model of a release is then its own, and so are all facts that depend on the model."""
    facts = {"tool/mode auto": {"a": ""}, "tool/mode interactive": {"a": ""}, "record/first turn": {"r": ""}}
    ours = known(release("1.0.0", clauses=WHOLE, facts=facts))
    shown = {"default model/any turn": {"default model": "gpt"}, "tool/mode auto": {"b": ""}}
    new = release("1.0.0", None, clauses={"stdin.open": PASS}, facts=shown, model="gpt")
    monkeypatch.setattr(fill, "read", lambda _: ())
    monkeypatch.setattr(fill, "known_release", lambda _: new)
    (after,) = with_journal(ours, tmp_path).releases
    assert (after.facts, after.model) == (shown | {"record/first turn": {"r": ""}}, "gpt")


def test_a_machine_that_can_not_test_a_release_changes_nothing(tmp_path: Path) -> None:
    """What another machine has shown stays; a release that nobody could test says why."""
    unanswered = journal(tmp_path, verdict="unanswered")
    ours = known(release("0.169.0", clauses=WHOLE))
    assert with_journal(ours, unanswered) == ours
    assert [each.verdict for each in with_journal(known(), unanswered).releases] == [Verdict.UNANSWERED]


def test_the_newest_of_several_journals_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever their names are."""
    kept = list[History]()
    monkeypatch.setattr(fill, "refreshed", lambda *_: known())
    monkeypatch.setattr(fill, "published", lambda _: None)
    monkeypatch.setattr(fill, "save", kept.append)
    for name, result, at in (("b", "fail", 1), ("a", "pass", 2)):
        path = journal(tmp_path, j.clause("stdin.open", result))
        path = path.rename(path.with_name(f"codex@0.169.0-{name}.ndjson"))
        os.utime(path, (at, at))
    assert fill.add("codex", tmp_path) == 2
    assert kept[0].releases[0].clauses["stdin.open"] == PASS
