"""Searching for the release where a clause changes, in played releases and in made-up answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.probes.matrix.conftest import Shop
from turngate.clauses import Result
from turngate.errors import EnvironmentFailed
from turngate.load import first_error
from turngate_probes.matrix.bisection import Answer, Bisection

MANY = tuple(f"0.{i}.0" for i in range(100, 164))


def search(versions: tuple[str, ...], results: dict[str, Result | None]) -> Bisection:
    """Search in made-up answers: pass where nothing is said."""
    return Bisection(versions, lambda version: Answer(version, results.get(version, Result.PASS), "made up"))


@given(st.integers(1, 63), st.sets(st.integers(1, 62)))
def test_the_change_is_found_in_few_questions(first: int, mute: set[int]) -> None:
    """The neighbours enclose the first release that fails with nothing but mute ones between, in few questions."""
    results: dict[str, Result | None] = dict.fromkeys(MANY[first:], Result.FAIL)
    results |= {MANY[at]: None for at in mute}
    found = search(MANY, results)
    low, high = found.between(*found.ends(None, None)) or (0, 0)
    assert low < high
    assert results.get(MANY[low], Result.PASS) is Result.PASS
    assert results[MANY[high]] is Result.FAIL
    assert set(range(low + 1, high)) <= mute
    assert [each.version for each in found.skipped(low, high)] == list(MANY[low + 1 : high])
    if not mute:
        assert high == first
        assert len(found.asked) <= 8


def test_the_same_result_at_both_ends_is_no_change() -> None:
    """Then two releases were asked, and nothing else."""
    found = search(MANY, {})
    assert found.between(*found.ends(None, None)) is None
    assert len(found.asked) == 2


def test_ends_that_do_not_answer_are_passed_over_unless_named() -> None:
    """Without names the outermost that answer are taken; a named one must answer, and be in order."""
    results: dict[str, Result | None] = {MANY[0]: None, MANY[-1]: None, MANY[-2]: Result.FAIL}
    assert search(MANY, results).ends(None, None) == (1, 62)
    for good, bad, what in (
        (MANY[0], None, "does not answer"),
        ("1.0.0", None, "no published release"),
        (MANY[5], MANY[4], "older"),
    ):
        with pytest.raises(EnvironmentFailed, match=what):
            search(MANY, results).ends(good, bad)


def test_no_answer_at_all_is_told() -> None:
    """Where no release answers there are no ends."""
    with pytest.raises(EnvironmentFailed, match="no release answers"):
        search(MANY[:2], dict.fromkeys(MANY)).ends(None, None)


def test_a_change_is_found_among_releases(shop: Shop) -> None:
    """Both neighbours are told with their evidence, releases that can't be had between them are named."""
    shop.publish("0.158.0", "0.159.0", "0.160.0", "0.161.0", "0.162.0", "0.163.0")
    for version in ("0.161.0", "0.162.0", "0.163.0"):
        shop.lies(version, "refuses-resume")
    code, report = shop.run("bisect", "codex", "resume.accepted", "--results", shop.folder / "results")
    assert code == 0, shop.err
    assert first_error("bisect-report", report) is None
    assert (report["before"]["version"], report["after"]["version"]) == ("0.160.0", "0.161.0")
    assert (report["before"]["result"], report["after"]["result"]) == ("pass", "fail")
    assert len(report["asked"]) <= 5
    assert "main/again" in shop.err
    assert "codex@0.161.0 fail" in shop.err


def test_a_need_that_falls_is_an_answer(shop: Shop) -> None:
    """A clause that can't be asked since another one fell has changed."""
    shop.lies("0.163.0", "refuses-resume")
    args = ("--good", "0.162.0", "--bad", "0.163.0", "--results", shop.folder / "results")
    code, report = shop.run("bisect", "codex", "resume.same-handle", *args)
    assert (code, report["after"]["result"]) == (0, "not_run")


def test_no_change_is_told(shop: Shop) -> None:
    """The same result at both ends ends with 2, having asked the ends alone."""
    code, report = shop.run("bisect", "codex", "version.readable", "--results", shop.folder / "results")
    assert code == 2
    assert not report["changed"]
    assert [each["version"] for each in report["asked"]] == ["0.160.0", "0.163.0"]
    assert "does not change: both ends say pass" in shop.err


def test_an_unknown_clause_is_told(shop: Shop) -> None:
    """With those that were perhaps meant."""
    assert shop.run("bisect", "codex", "resume.same-handel") == (2, None)
    assert "resume.same-handle" in shop.err
