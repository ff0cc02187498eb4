"""The history of an engine: what it answers, and how it is written."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tests.tables import each
from tests.tools.history.write import write
from turngate import NotFoundError, history
from turngate.contract import load
from turngate.contract.clauses import NEWEST_SET, Result
from turngate.contract.verdict import Verdict
from turngate.contract.versions import parse
from turngate.errors import ContractError, UsageError
from turngate.history import HIDDEN, Change, History, Kind, KnownRelease, KnownResult, differing

PASS, FRESH = KnownResult(Result.PASS), KnownResult(Result.DEVIATES, ("fresh-session",))
NEWER = "interactive.tool-call"
RECORDS = "record/first turn"


def release(version: str, verdict: Verdict | None = Verdict.COMPATIBLE, **more: Any) -> KnownRelease:
    """Return a release."""
    return KnownRelease(version=version, verdict=verdict, **more)


def known(*releases: KnownRelease, published: tuple[str, ...] = ()) -> History:
    """Return a history with these releases, and others that were only published."""
    versions = sorted({*published, *(each.version for each in releases)}, key=parse)
    return History(engine="codex", machine="Linux", published=dict.fromkeys(versions), releases=releases)


def subjects(older: dict[str, str], newer: dict[str, str], section: str = RECORDS) -> set[str]:
    """Return what differs between two sets of facts."""
    sides = release("1.0.0", facts={section: older}), release("1.1.0", facts={section: newer})
    return {change.subject for change in known(*sides).changes()}


def test_a_release_is_found_by_its_exact_version() -> None:
    """An unknown version is None, and its neighbours are the nearest tested ones."""
    ours = known(release("0.9.0"), release("0.10.0", Verdict.UNANSWERED), release("0.11.0"))
    assert ours.find("0.10.0") == release("0.10.0", Verdict.UNANSWERED)
    assert ours.find("0.12.0") is None
    assert [each and each.version for each in ours.nearest("0.10.5")] == ["0.9.0", "0.11.0"]
    assert [each and each.version for each in ours.nearest("0.12.0")] == ["0.11.0", None]


def test_a_version_is_a_release_or_none_or_not_known_yet() -> None:
    """A version below the newest that nobody published is no release; a text that is no version is refused."""
    ours = known(release("0.9.0"), published=("0.8.0", "0.11.0"))
    versions = ("0.8.0", "0.9.0", "0.10.0", "0.10.0-alpha.1", "0.12.0")
    assert [ours.is_release(version) for version in versions] == [True, True, False, None, None]
    for ask in (ours.is_release, ours.nearest, ours.newest_safe, ours.changes, lambda each: ours.untested(each, each)):
        with pytest.raises(UsageError, match="'zzz' is not a version"):
            ask("zzz")


def test_the_newest_compatible_release_is_safe() -> None:
    """A degraded, broken or partly tested release is not safe."""
    newer = (release("0.12.0", Verdict.DEGRADED), release("0.13.0", None))
    ours = known(release("0.9.0"), release("0.11.0"), *newer)
    assert ours.newest_safe() == release("0.11.0")
    assert ours.newest_safe(above="0.9.0") == release("0.11.0")
    assert ours.newest_safe(above="0.11.0") is None


def test_a_record_that_comes_is_named_without_its_keys() -> None:
    """A key is a change of its own only where its record and the key above it were there before."""
    older = {"turn": "", "turn: usage": "object", "turn: usage.tokens": "number"}
    item = {"item": "", "item: id": "string", "item: parts": "array", "item: parts[].x": "null"}
    assert subjects(older, older | item) == {"item"}
    assert subjects(item, item | {"item: parts[].y": "string", "item: text": "string"}) == {
        "item: parts[].y",
        "item: text",
    }
    assert subjects(older, {"turn": ""}) == {"turn: usage"}
    assert subjects(older, older | {"turn: usage.tokens": "string"}) == {"turn: usage.tokens"}
    # records without a kind have keys alone, and kinds may have dots
    assert subjects({"stats": "object"}, {"stats": "object", "stats.models": "object"}) == {"stats.models"}
    assert subjects({"stats": "object", "stats.models": "object"}, {}) == {"stats"}
    assert subjects({"item.started": ""}, {}) == {"item.started"}


def test_a_command_that_has_another_place_has_moved() -> None:
    """It is one change with both names; if two have its last word, nobody knows which of them it is."""
    older = {"codex": "", "codex a": "", "codex a run": "", "codex a run: --x": "", "codex b": ""}
    moved = {"codex": "", "codex a": "", "codex b": "", "codex b run": "", "codex b run: --x": ""}
    assert [*differing(Kind.COMMAND, older, moved)] == [("codex a run", "codex a run", "codex b run")]
    both = moved | {"codex c run": ""}
    assert {name for name, *_ in differing(Kind.COMMAND, older, both)} == {"codex a run", "codex b run", "codex c run"}
    assert len([*differing(Kind.RECORD, older, moved)]) == 2


def test_a_clause_that_was_not_run_is_no_change() -> None:
    """It is compared with the release before that had a result."""
    shown = [KnownResult(Result.PASS), KnownResult(Result.NOT_RUN), FRESH]
    releases = [release(f"1.{i}.0", clauses={"resume.dead-handle": result}) for i, result in enumerate(shown)]
    (change,) = known(*releases).changes()
    assert (change.release, change.since, change.before) == ("1.2.0", "1.0.0", "pass")


def test_what_one_release_did_not_show_is_no_change() -> None:
    """A section of facts or a clause that only one of both has says nothing."""
    older = release("1.0.0", facts={RECORDS: {"turn": ""}}, clauses={"stdin.open": PASS})
    newer = release("1.1.0", facts={"host/any turn": {"x.example": ""}}, clauses={"prompt.large": PASS})
    assert [*known(older, newer).changes()] == []


def test_a_change_is_not_lost_behind_a_release_that_says_nothing_about_it() -> None:
    """It is named with the last release before it in which the same was observed."""
    first = release("1.0.0", facts={RECORDS: {"a": ""}}, clauses={"stdin.open": PASS})
    last = release("1.2.0", facts={RECORDS: {"b": ""}}, clauses={"stdin.open": FRESH})
    ours = known(first, release("1.1.0", clauses={"prompt.large": PASS}), last)
    assert {(change.since, change.release, change.subject) for change in ours.changes()} == {
        ("1.0.0", "1.2.0", subject) for subject in ("a", "b", "stdin.open")
    }
    assert ours.untested("1.0.0", "1.2.0") == ("1.1.0",)


@pytest.mark.parametrize("section, named", [("record/tool call", []), ("option/codex --help", [1, 2, 3, 4])])
def test_what_comes_and_goes_again_and_again_is_no_change(section: str, named: list[int]) -> None:
    """A record that only some turns print says nothing about releases; options can't depend on chance."""
    steps = [release(f"1.{n}.0", facts={section: {"a": ""} if n % 2 else {}}) for n in range(5)]
    assert [change.release for change in known(*steps).changes()] == [f"1.{n}.0" for n in named]
    assert [change.release for change in known(*steps[:4]).changes()] == ["1.1.0", "1.2.0", "1.3.0"]


@pytest.mark.parametrize("other", [PASS, KnownResult(Result.DEVIATES, ("refused",))])
def test_a_caveat_that_comes_and_goes_again_and_again_is_no_change(other: KnownResult) -> None:
    """What a clause shows by chance says nothing about releases, alone or beside another symptom."""
    sometimes = KnownResult(Result.DEVIATES, (*other.symptoms, "fresh-session"))
    steps = [release(f"1.{n}.0", clauses={"resume.other-cwd": sometimes if n % 2 else other}) for n in range(5)]
    assert known(*steps).changes() == ()
    assert len(known(*steps[:4]).changes()) == 3


def test_a_change_is_named_once_with_all_its_places() -> None:
    """The same difference in several turns is one change."""
    older = release("1.0.0", facts={"record/b": {}, "record/a": {}})
    newer = release("1.1.0", facts={"record/b": {"x": ""}, "record/a": {"x": ""}})
    where = ("a", "b")
    assert [*known(older, newer).changes()] == [
        Change(release="1.1.0", since="1.0.0", kind="record", subject="x", before=None, after="", where=where)
    ]


def test_clauses_change_by_result_and_symptom() -> None:
    """A caveat that goes, and one with another symptom, are changes of the clause."""
    older = release("1.0.0", clauses={"resume.dead-handle": FRESH, "stdin.open": PASS})
    newer = release("1.1.0", Verdict.DEGRADED, clauses={"resume.dead-handle": PASS, "stdin.open": PASS})
    changes = [(each.subject, each.before, each.after) for each in known(older, newer).changes()]
    assert changes == [
        ("1.1.0", "compatible", "degraded"),
        ("resume.dead-handle", "deviates: fresh-session", "pass"),
    ]
    assert older.caveats == (("resume.dead-handle", "fresh-session"),)


def test_changes_lie_between_two_releases() -> None:
    """Each change is named with its release, and what could not be tested is passed over."""
    steps = [release(f"1.{n}.0", facts={RECORDS: {str(n): ""}}) for n in range(4)]
    ours = known(*steps[:2], release("1.1.5", Verdict.UNANSWERED), *steps[2:], published=("1.2.5",))
    assert [change.release for change in ours.changes("1.1.0", "1.2.0")] == ["1.2.0", "1.2.0"]
    assert {change.since for change in ours.changes("1.1.2", "1.2.0")} == {"1.1.0"}
    assert len(ours.changes()) == 6
    assert ours.untested("1.1.0", "1.3.0") == ("1.1.5", "1.2.5")


def test_what_a_release_was_not_tested_for_is_compared_with_the_ones_before_it() -> None:
    """A part of a history says the same of a release as the whole, wherever it begins."""
    option = "option/codex --help"
    steps = [
        release("1.0.0", facts={option: {"--old": ""}}, clauses={"stdin.open": PASS}),
        release("1.1.0", facts={option: {"--old": HIDDEN}, RECORDS: {"a": ""}}, clauses={"stdin.open": FRESH}),
        release("1.2.0", facts={option: {}, RECORDS: {"a": ""}}),
        release("1.3.0", None, facts={RECORDS: {"b": ""}}),
        release("1.4.0", facts={option: {"--old": ""}, RECORDS: {"b": ""}}, clauses={"stdin.open": PASS}),
    ]
    ours = known(*steps)
    newest = [change for change in ours.changes() if change.release == "1.4.0"]
    assert {(change.subject, change.since, change.before) for change in newest} == {
        ("stdin.open", "1.1.0", "deviates: fresh-session"),
        ("--old", "1.2.0", HIDDEN),
    }
    for since in ("1.1.0", "1.2.0", "1.2.5", "1.3.0"):
        assert [change for change in ours.changes(since) if change.release == "1.4.0"] == newest


LONG = "resume.long-session"
_STRICTER = {"stdin.open": PASS, NEWER: KnownResult(Result.FAIL)}


def test_a_verdict_of_other_clauses_is_no_change() -> None:
    """Releases that were tested by different sets are compared by the clauses of both; each keeps its own verdict."""
    older = release("1.0.0", clauses={"stdin.open": PASS})
    newer = release("1.1.0", Verdict.BROKEN, clauses=_STRICTER, clause_set="2026-12")
    ours = known(older, newer, release("1.2.0", clauses={"stdin.open": PASS, NEWER: PASS}, clause_set="2026-12"))
    assert ours.changes("1.0.0", "1.1.0") == ()
    assert [(each.subject, each.since) for each in ours.changes("1.1.0")] == [("1.2.0", "1.1.0"), (NEWER, "1.1.0")]
    assert known(newer, release("1.2.0", clauses={"stdin.open": PASS})).changes() == ()


def test_a_verdict_with_long_sessions_is_compared_without_them() -> None:
    """Where only one of two releases was tested at level long, its clauses of that level don't count."""
    good, bad = {"stdin.open": PASS, LONG: PASS}, {"stdin.open": PASS, LONG: KnownResult(Result.FAIL)}
    short = release("1.0.0", clauses={"stdin.open": PASS}, clause_set=NEWEST_SET)
    older = release("1.0.0", clauses=good, clause_set=NEWEST_SET, level="long")
    newer = release("1.1.0", Verdict.DEGRADED, clauses=bad, clause_set=NEWEST_SET, level="long")
    assert known(short, newer).changes() == ()
    assert [each.kind for each in known(older, newer).changes()] == ["verdict", "clause"]


@each(
    "more",
    [
        {"clause_set": "2026-12"},
        {"level": "long"},
    ],
)
def test_what_only_more_turns_showed_is_no_change(more: dict[str, Any]) -> None:
    """A clause about every turn, and hosts, are compared only if the release that looks better was asked as much."""
    left: dict[str, Any] = {"clauses": {"process.clean-exit": KnownResult(Result.FAIL, ("left-running",))}}
    hosts: dict[str, Any] = {"clauses": {"process.clean-exit": PASS}, "facts": {"host/any turn": {"example.com": ""}}}
    few = release("1.0.0", clauses={"process.clean-exit": PASS}, facts={"host/any turn": {}})
    many = release("1.1.0", Verdict.DEGRADED, **left, **more)
    assert known(few, many).changes() == ()
    assert known(few, release("1.1.0", **hosts, **more)).changes() == ()
    again = release("1.2.0", clauses={"process.clean-exit": PASS})
    assert known(many, again).changes() == ()
    for better in (again, release("1.2.0", clauses={"process.clean-exit": PASS}, **more)):
        fails_in_few = release("1.1.0", Verdict.DEGRADED, **left)
        assert [each.kind for each in known(fails_in_few, better).changes()] == ["verdict", "clause"]
        assert [each.kind for each in known(few, fails_in_few, better).changes()] == ["verdict", "clause"] * 2


def test_what_breaks_by_the_older_clauses_too_is_a_change() -> None:
    """The verdict of the newer release by the older clauses counts."""
    older = release("1.0.0", clauses={"handle.present": PASS})
    broken = {"handle.present": KnownResult(Result.FAIL), NEWER: PASS}
    newer = release("1.1.0", Verdict.BROKEN, clauses=broken, clause_set="2026-12")
    first, _ = known(older, newer).changes()
    assert (first.kind, first.before, first.after) == ("verdict", "compatible", "broken")
    untestable = release("1.1.0", Verdict.UNANSWERED, clause_set="2026-12")
    assert [each.kind for each in known(older, untestable, newer).changes()] == ["verdict", "clause"]


def test_a_row_without_a_set_is_of_the_first_one(tmp_path: Path) -> None:
    """A row names its set only if that is not the first; a row that was tested before a clause existed stays so."""
    ours = known(release("1.0.0", clauses={"stdin.open": PASS}), release("1.1.0", clause_set="2026-12"))
    write(ours, path := tmp_path / "codex.jsonl")
    assert ["clause_set" in line for line in path.read_text().splitlines()] == [False, False, True]
    assert [each.clause_set for each in history.read(path).releases] == ["2026-11", "2026-12"]
    safe = history.read(path).newest_safe()
    assert safe
    assert safe.clause_set == "2026-12"


_FACTS = st.dictionaries(
    st.sampled_from([RECORDS, "option/codex --help", "host/any turn"]),
    st.dictionaries(st.sampled_from(["a", "a: b", "a: b.c", "--x"]), st.sampled_from(["", "string"])),
)
_CLAUSES = st.dictionaries(st.sampled_from(["stdin.open", "prompt.large"]), st.sampled_from([PASS, FRESH]))


@given(st.lists(st.tuples(_FACTS, _CLAUSES), max_size=4))
def test_what_is_written_is_read(releases: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    """A file has everything, although it has only the differences."""
    ours = known(*(release(f"1.{n}.0", facts=facts, clauses=of) for n, (facts, of) in enumerate(releases)))
    with TemporaryDirectory() as folder:
        write(ours, path := Path(folder) / "codex.jsonl")
        assert history.read(path) == ours


def test_a_file_of_a_newer_turngate_is_refused(tmp_path: Path) -> None:
    """The error says what wrote the file; a later version still reads older files."""
    write(known(), path := tmp_path / "codex.jsonl")
    path.write_text(path.read_text().replace("history/1", "history/2"))
    with pytest.raises(ContractError, match="a newer turngate wrote it"):
        history.read(path)
    path.write_text("{}\n")
    with pytest.raises(ContractError, match="can't be read"):
        history.read(path)


@each(
    "name, hint", [("codx", "did you mean codex?"), ("codex@0.169.0", "did you mean codex?"), ("x", "it has claude,")]
)
def test_an_engine_without_a_history_is_named_with_those_that_have_one(name: str, hint: str) -> None:
    """A near name is offered, also for a release."""
    with pytest.raises(NotFoundError) as caught:
        history.load(name)
    assert caught.value.hint.startswith(hint)


@each("engine", history.engines())
def test_the_packaged_histories_hold_together(engine: str) -> None:
    """Releases are in order and were published, and clauses exist; what is written again is the same."""
    ours = history.load(engine)
    versions = [each.version for each in ours.releases]
    assert versions == sorted(versions, key=parse)
    assert ours.engine == engine
    assert {name for each in ours.releases for name in each.clauses} <= load.catalogue().keys()
    secret = [fact for each in ours.releases for facts in each.facts.values() for fact in facts if "registry." in fact]
    assert secret == []


@each("engine", history.engines())
def test_records_of_the_packaged_histories_have_the_key_that_names_them(engine: str) -> None:
    """A record that is found by its `type` has this key; one without it comes from a list that was cut."""
    field = load.contract(engine).at().events.field
    cut = [
        (each.version, section, kind)
        for each in (history.load(engine).releases if field else ())
        for section, facts in each.facts.items()
        for kind in facts
        if section.startswith("record/")
        and ": " not in kind
        and kind != "(no type)"
        and f"{kind}: {field}" not in facts
    ]
    assert cut == []


@each("section", ["tool/mode auto", "tool call/mode auto", "request/first turn"])
def test_what_another_model_showed_says_nothing(section: str) -> None:
    """Facts that depend on the model are compared only between releases with the same one; others always are."""
    facts = [{section: {name: ""}, RECORDS: {name: ""}} for name in ("a", "b")]
    older, newer = (release(f"1.{n}.0", facts=each_facts) for n, each_facts in enumerate(facts))
    assert older.model == "stub"
    assert len(known(older, newer).changes()) == 4
    assert {change.kind for change in known(older, structs.replace(newer, model="gpt")).changes()} == {"record"}


def test_a_release_that_was_tested_for_selected_clauses_has_no_verdict_but_facts() -> None:
    """What it showed is compared with the releases around it, whose verdicts are compared with each other."""
    section, verdicts = "feature/any list", (Verdict.COMPATIBLE, None, Verdict.BROKEN)
    steps = [release(f"1.{n}.0", verdict, facts={section: {f"f{n}": ""}}) for n, verdict in enumerate(verdicts)]
    assert [(each.kind, each.release, each.since) for each in known(*steps).changes()] == [
        ("feature", "1.1.0", "1.0.0"),
        ("feature", "1.1.0", "1.0.0"),
        ("verdict", "1.2.0", "1.0.0"),
        ("feature", "1.2.0", "1.1.0"),
        ("feature", "1.2.0", "1.1.0"),
    ]


def test_what_releases_do_under_their_default_models_is_compared() -> None:
    """Both are what a user gets who names no model; a release between them that had another one says nothing."""
    names = ("gpt-1", None, "gpt-2")
    own = [{"default model/any turn": {"default model": name}} if name else {} for name in names]
    facts = [{"tool/mode auto": {f"t{n}": ""}} | default for n, default in enumerate(own)]
    releases = [
        release(f"1.{n}.0", facts=f, model=name or "stub") for n, (f, name) in enumerate(zip(facts, names, strict=True))
    ]
    changes = known(*releases).changes()
    assert [(each.kind, each.since, each.before, each.after) for each in changes] == [
        ("default model", "1.0.0", "gpt-1", "gpt-2"),
        ("tool", "1.0.0", "", None),
        ("tool", "1.0.0", None, ""),
    ]
