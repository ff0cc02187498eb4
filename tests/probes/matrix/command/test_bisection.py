"""Bisecting made-up histories of results, and releases of a fake registry."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contracts.test_history import known, release
from tests.probes.matrix.conftest import Shop
from turngate import history
from turngate.contract.clauses import NEWEST_SET, Result
from turngate.contract.load import first_error
from turngate.errors import UsageError
from turngate.files import contract_files, use_overlay
from turngate.history import KnownResult
from turngate_probes.matrix.command import Bisection, ClauseAnswer, ResultChange, known_answers

MANY = tuple(f"0.{i}.0" for i in range(100, 164))


RESULTS: tuple[Result | None, ...] = (Result.PASS, Result.FAIL, Result.DEVIATES, None)


def search(history: Sequence[Result | None]) -> Bisection:
    """Return a bisection of made-up results, one per release (None: untestable), that tests no release twice."""
    left = dict(zip(MANY, history, strict=False))
    return Bisection(tuple(left), lambda version: ClauseAnswer(version, left.pop(version), "made up"))


def check(history: Sequence[Result | None], change: ResultChange, newest: int) -> None:
    """Check that a change begins the newest result, and that nothing in between can be tested."""
    assert history[change.after] is history[newest]
    assert history[change.before] not in (None, history[newest])
    assert set(history[change.before + 1 : change.after]) <= {None}


@given(st.lists(st.sampled_from(RESULTS), min_size=1, max_size=64))
def test_whatever_is_found_is_a_change_to_the_newest_result(history: list[Result | None]) -> None:
    """In any history, the search finds a change to the newest result, unless all tested releases agree."""
    answering = [at for at, result in enumerate(history) if result is not None]
    searched = search(history)
    if not answering:
        with pytest.raises(UsageError, match=f"none of {len(history)} releases can be tested"):
            searched.search()
        return
    change = searched.search()
    if change:
        check(history, change, answering[-1])
        skipped = list(searched.versions[change.before + 1 : change.after])
        assert [answer.version for answer in searched.skipped(change)] == skipped
    else:
        same = [
            at for at, version in enumerate(searched.versions) if version in searched.asked and history[at] is not None
        ]
        assert {history[at] for at in same} == {history[answering[-1]]}
        assert set(history[: same[0]]) <= {None}


@given(st.integers(1, 63), st.sets(st.integers(0, 63)))
def test_one_change_is_found_wherever_releases_are_silent(first: int, silent: set[int]) -> None:
    """A single change is found between the nearest testable releases around it."""
    history = [None if at in silent else (Result.FAIL if at < first else Result.PASS) for at in range(64)]
    old = [at for at in range(first) if at not in silent]
    new = [at for at in range(first, 64) if at not in silent]
    if old and new:
        assert search(history).search() == ResultChange(old[-1], new[0])


@given(st.lists(st.sampled_from(RESULTS), min_size=1, max_size=64), st.sets(st.integers(0, 63)))
def test_what_is_known_is_not_tested(history: list[Result | None], known: set[int]) -> None:
    """The same change is found, whatever is known before, and no known release is tested."""
    answers = {MANY[at]: ClauseAnswer(MANY[at], history[at], "known") for at in known if at < len(history)}
    alone = search(history)
    helped = Bisection(alone.versions, search(history)._ask, answers)
    assert found(helped) == found(alone)
    assert not answers.keys() & helped.asked.keys()


def found(searched: Bisection) -> ResultChange | None:
    """Return what a search finds; None also if no release can be tested."""
    try:
        return searched.search()
    except UsageError:
        return None


def test_the_history_answers_for_the_releases_that_it_has(tmp_path: Path) -> None:
    """Where every release is known, none is tested. A contract of the user's own has no history."""
    known = known_answers("codex", "resume.dead-handle")
    found = Bisection(("0.115.0", "0.116.0", "0.117.0", "0.118.0"), lambda _: pytest.fail("tested"), known)
    assert found.search() == ResultChange(1, 2)
    assert "from turngate's history, 20" in known["0.116.0"].detail
    own = tmp_path / "engines/codex.yaml"
    own.parent.mkdir()
    shutil.copy(contract_files()["codex"], own)
    use_overlay(tmp_path)
    try:
        assert known_answers("codex", "resume.dead-handle") == {}
    finally:
        use_overlay(None)


def test_an_earlier_set_answers_for_none_of_its_successors(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release that was tested before a clause existed, or passed one in fewer turns, is tested now."""
    newer, every, fails = "interactive.tool-call", "stream.known-events", KnownResult(Result.FAIL)
    older = [release(f"1.{n}.0", clauses={every: KnownResult(Result.PASS)}) for n in range(2)]
    measured = release("1.2.0", clauses={newer: fails, every: fails}, clause_set=NEWEST_SET)
    ours = known(*older, release("1.1.5", clauses={every: fails}), measured)
    monkeypatch.setattr(history, "load", {"codex": ours}.__getitem__)
    for clause, answering in ((newer, ["1.2.0"]), (every, ["1.1.5", "1.2.0"])):
        answers = known_answers("codex", clause)
        assert [*answers] == answering
        assert answers["1.2.0"].detail.endswith(" (from turngate's history)"), "it has no date"
        asked = Bisection([*ours.published], lambda version: ClauseAnswer(version, Result.FAIL, ""), answers)
        assert asked.search() is None
        assert {*asked.asked} <= {"1.0.0", "1.1.0", "1.1.5"} - answers.keys()


def test_a_test_at_another_level_answers_for_no_clause_that_it_did_not_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long session and a server are asked only of releases whose test had them."""
    passed = {"version.readable": KnownResult(Result.PASS)}
    levels = {"1.0.0": "hermetic", "1.1.0": "long"}
    ours = known(
        *(release(version, clauses=passed, level=level, clause_set=NEWEST_SET) for version, level in levels.items())
    )
    monkeypatch.setattr(history, "load", {"codex": ours}.__getitem__)
    assert [*known_answers("codex", "resume.long-session")] == ["1.1.0"]
    assert [*known_answers("codex", "server.cancel")] == []
    assert [*known_answers("codex", "resume.dead-handle")] == ["1.0.0", "1.1.0"]


@given(st.integers(1, 63))
def test_few_releases_are_asked(first: int) -> None:
    """The number of tested releases grows with the logarithm of the distance."""
    searched = search([Result.FAIL] * first + [Result.PASS] * (64 - first))
    assert searched.search() == ResultChange(first - 1, first)
    assert len(searched.asked) <= 2 * (64 - first).bit_length() + 1


@given(st.integers(1, 16), st.integers(0, 31))
def test_the_last_of_several_changes_is_found(since: int, lasted_longer: int) -> None:
    """The last change is found if the result before it lasted at least as long as the newest one."""
    history = [Result.PASS] * 64
    last = 64 - since
    first = max(0, last - since - lasted_longer)
    history[first:last] = [Result.FAIL] * (last - first)
    assert search(history).search() == ResultChange(last - 1, last)


@given(st.lists(st.sampled_from(RESULTS[:3]), min_size=2, max_size=64), st.tuples(st.booleans(), st.booleans()))
def test_what_is_left_is_never_too_little_and_never_grows(history: list[Result], named: tuple[bool, bool]) -> None:
    """Before each test the search knows how many releases it tests at most, all in all."""
    expected, newest = [], MANY[len(history) - 1]

    def ask(version: str) -> ClauseAnswer:
        expected.append(len(searched.asked) + 1 + searched.left)
        return ClauseAnswer(version, history[MANY.index(version)], "made up")

    searched = Bisection(MANY[: len(history)], ask)
    searched.search(*(end if is_named else None for end, is_named in zip((MANY[0], newest), named, strict=True)))
    assert expected == sorted(expected, reverse=True)
    assert expected[-1] >= len(searched.asked)


def test_two_neighbours_leave_nothing_to_search() -> None:
    """Between two releases without another one in between, the search is known to take two tests."""
    left: list[int] = []

    def ask(version: str) -> ClauseAnswer:
        left.append(searched.left)
        return ClauseAnswer(version, Result.PASS if version == MANY[6] else Result.FAIL, "made up")

    searched = Bisection(MANY, ask)
    assert searched.search(MANY[5], MANY[6]) == ResultChange(5, 6)
    assert left == [1, 0]


def test_a_row_of_silent_releases_is_left_behind_quickly() -> None:
    """Of 30 untestable releases at the old end, at most two are tried."""
    searched = search([None] * 30 + [Result.FAIL] * 2 + [Result.PASS] * 32)
    assert searched.search() == ResultChange(31, 32)
    assert sum(answer.result is None for answer in searched.asked.values()) <= 2


@given(st.lists(st.sampled_from(RESULTS), min_size=2, max_size=64), st.data())
def test_named_ends_bound_the_search(history: list[Result | None], data: st.DataObject) -> None:
    """Only releases between --good and --bad are tested, whichever is older; equal results mean no change."""
    good = data.draw(st.integers(0, len(history) - 2))
    bad = data.draw(st.integers(good + 1, len(history) - 1))
    ends = data.draw(st.permutations((MANY[good], MANY[bad])))
    searched = search(history)
    if None in (history[good], history[bad]):
        with pytest.raises(UsageError, match="can't be tested: made up"):
            searched.search(*ends)
        return
    change = searched.search(*ends)
    assert set(searched.asked) <= set(MANY[good : bad + 1])
    assert (change is None) == (history[good] is history[bad])
    if change:
        check(history, change, bad)


@pytest.mark.parametrize(
    "good, bad, what",
    [
        ("1.0.0", None, "1.0.0 is not a published release"),
        (None, "1.0.0", "1.0.0 is not a published release"),
        (MANY[5], MANY[5], "are the same release"),
    ],
)
def test_wrong_ends_are_refused_before_anything_runs(good: str | None, bad: str | None, what: str) -> None:
    """Unknown releases, and one release as both ends, are rejected before anything runs."""
    searched = search([Result.PASS] * 64)
    with pytest.raises(UsageError, match=what):
        searched.search(good, bad)
    assert not searched.asked


def test_the_same_result_at_named_ends_costs_two_releases() -> None:
    """If both given ends have the same result, no other release is tested."""
    searched = search([Result.PASS] * 64)
    assert searched.search(MANY[0], MANY[63]) is None
    assert len(searched.asked) == 2


@pytest.mark.long
def test_a_change_is_found_among_releases(shop: Shop) -> None:
    """The report names the releases on both sides of the change, with evidence and the new result."""
    shop.publish("0.158.0", "0.159.0", "0.160.0", "0.161.0", "0.162.0", "0.163.0")
    for version in ("0.161.0", "0.162.0", "0.163.0"):
        shop.faults(version, "session=lost")
    code, report = shop.run("bisect", "codex", "resume.accepted", "--results", shop.folder / "results")
    assert code == 0, shop.err
    assert first_error("bisect-report", report) is None
    assert (report["before"]["version"], report["after"]["version"]) == ("0.160.0", "0.161.0")
    assert (report["before"]["result"], report["after"]["result"]) == ("pass", "fail")
    assert report["candidates"] == ["0.161.0"]
    assert len(report["asked"]) <= 5
    assert "resume.accepted: fail since codex 0.161.0\n" in shop.err
    assert "main/again" in shop.err
    assert "codex@0.161.0 fail" in shop.err


@pytest.mark.long
def test_releases_that_cannot_answer_leave_candidates(shop: Shop) -> None:
    """Releases with a failing prerequisite are skipped; if they hide the change, they are candidates."""
    shop.publish("0.160.0", "0.161.0", "0.162.0", "0.163.0")
    for version in ("0.161.0", "0.162.0"):
        shop.faults(version, "renames-id")
    shop.faults("0.163.0", "session=lost")
    code, report = shop.run("bisect", "codex", "resume.accepted", "--results", shop.folder / "results")
    assert (code, first_error("bisect-report", report)) == (0, None)
    assert (report["before"]["version"], report["after"]["version"]) == ("0.160.0", "0.163.0")
    assert report["candidates"] == ["0.161.0", "0.162.0", "0.163.0"]
    assert [(answer["version"], answer["result"]) for answer in report["skipped"]] == [
        ("0.161.0", None),
        ("0.162.0", None),
    ]
    assert "fail since one of 3 releases of codex: 0.161.0, 0.162.0, 0.163.0\n" in shop.err
    assert "codex@0.161.0 skipped: needs handle.present, which failed: `thread_id` matched nothing" in shop.err


@pytest.mark.long
def test_a_named_end_that_cannot_answer_is_refused(shop: Shop) -> None:
    """If a given end can't be tested, the exit code is 2, and the reason is printed."""
    shop.faults("0.163.0", "session=lost")
    args = ("--good", "0.162.0", "--bad", "0.163.0", "--results", shop.folder / "results")
    assert shop.run("bisect", "codex", "resume.same-handle", *args) == (2, None)
    assert "0.163.0 can't be tested: needs resume.accepted, which failed: " in shop.err


@pytest.mark.long
def test_no_change_is_reported(shop: Shop) -> None:
    """If the clause has the same result everywhere, the exit code is 2."""
    code, report = shop.run("bisect", "codex", "version.readable", "--results", shop.folder / "results")
    assert (code, first_error("bisect-report", report)) == (2, None)
    assert not report["changed"]
    assert report["candidates"] == []
    assert {answer["version"] for answer in report["asked"]} <= {"0.160.0", "0.161.0", "0.162.0", "0.163.0"}
    assert "version.readable does not change: pass in every release that could be tested" in shop.err


def test_an_unknown_clause_is_refused(shop: Shop) -> None:
    """An unknown clause is rejected with similar names."""
    assert shop.run("bisect", "codex", "resume.same-handel") == (2, None)
    assert "resume.same-handle" in shop.err
