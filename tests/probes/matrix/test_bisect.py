"""`turngate bisect` among played releases."""

import pytest

from tests.probes.matrix.conftest import Shop
from turngate.contract.load import first_error


@pytest.mark.long
def test_a_change_is_found_among_releases(shop: Shop) -> None:
    """Both neighbours are printed with their evidence, and the result that began."""
    shop.publish("0.158.0", "0.159.0", "0.160.0", "0.161.0", "0.162.0", "0.163.0")
    for version in ("0.161.0", "0.162.0", "0.163.0"):
        shop.lies(version, "refuses-resume")
    code, report = shop.run("bisect", "codex", "resume.accepted", "--results", shop.folder / "results")
    assert code == 0, shop.err
    assert first_error("bisect-report", report) is None
    assert (report["before"]["version"], report["after"]["version"]) == ("0.160.0", "0.161.0")
    assert (report["before"]["result"], report["after"]["result"]) == ("pass", "fail")
    assert report["candidates"] == ["0.161.0"]
    assert len(report["asked"]) <= 5
    assert "resume.accepted: fail began in codex 0.161.0\n" in shop.err
    assert "main/again" in shop.err
    assert "codex@0.161.0 fail" in shop.err


@pytest.mark.long
def test_releases_that_cannot_answer_leave_candidates(shop: Shop) -> None:
    """A release in which a prerequisite fails is skipped; if it hides the change, it is named as a candidate."""
    shop.publish("0.160.0", "0.161.0", "0.162.0", "0.163.0")
    for version in ("0.161.0", "0.162.0"):
        shop.lies(version, "renames-id")
    shop.lies("0.163.0", "refuses-resume")
    code, report = shop.run("bisect", "codex", "resume.accepted", "--results", shop.folder / "results")
    assert (code, first_error("bisect-report", report)) == (0, None)
    assert (report["before"]["version"], report["after"]["version"]) == ("0.160.0", "0.163.0")
    assert report["candidates"] == ["0.161.0", "0.162.0", "0.163.0"]
    assert [(each["version"], each["result"]) for each in report["skipped"]] == [("0.161.0", None), ("0.162.0", None)]
    assert "fail began in codex, in one of 3 releases: 0.161.0, 0.162.0, 0.163.0\n" in shop.err
    assert "codex@0.161.0 skipped needs handle.present, which is fail: no record of stdout" in shop.err


def test_a_named_end_that_cannot_answer_is_refused(shop: Shop) -> None:
    """With the reason, and exit code 2: its prerequisite is what changed."""
    shop.lies("0.163.0", "refuses-resume")
    args = ("--good", "0.162.0", "--bad", "0.163.0", "--results", shop.folder / "results")
    assert shop.run("bisect", "codex", "resume.same-handle", *args) == (2, None)
    assert "0.163.0 doesn't answer: needs resume.accepted, which is fail: " in shop.err


@pytest.mark.long
def test_no_change_is_reported(shop: Shop) -> None:
    """One result wherever the clause could be run ends with 2."""
    code, report = shop.run("bisect", "codex", "version.readable", "--results", shop.folder / "results")
    assert (code, first_error("bisect-report", report)) == (2, None)
    assert not report["changed"]
    assert report["candidates"] == []
    assert {each["version"] for each in report["asked"]} <= {"0.160.0", "0.161.0", "0.162.0", "0.163.0"}
    assert "version.readable does not change: pass in every release that was run" in shop.err


def test_an_unknown_clause_is_refused(shop: Shop) -> None:
    """With those that were perhaps meant."""
    assert shop.run("bisect", "codex", "resume.same-handel") == (2, None)
    assert "resume.same-handle" in shop.err
