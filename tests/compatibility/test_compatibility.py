"""The saved matrix results agree with the contracts, and the tables with the saved results."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.compatibility import kept
from tests.compatibility.boundaries import boundaries, disagreeing
from tests.compatibility.render import in_readme, page, stretches, summary
from turngate.contract import load

KEPT = kept.read()
ENGINES = sorted(KEPT["engines"])
README, PAGE = kept.ROOT / "README.md", kept.ROOT / "docs" / "compatibility.md"
every_engine = pytest.mark.parametrize("name", ENGINES)


def release(version: str, *clauses: dict[str, Any], **other: Any) -> dict[str, Any]:
    """Return a release of a report on codex."""
    profile = {"kind": "resumable", "reason": "", "session_timeout_sec": 1200}
    whole = {"engine": "codex", "version": version, "verdict": "degraded", "profile": profile, "failed": None}
    return whole | {"clauses": list(clauses)} | other


def report(*releases: dict[str, Any], asked: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return a report."""
    machine = {"system": "Linux", "arch": "x86_64", "node": "v20.1.0"}
    return {"machine": machine, "clauses": list(asked), "releases": list(releases)}


def clause(name: str, result: str, detail: str) -> dict[str, Any]:
    """Return a clause result."""
    return {"id": name, "result": result, "detail": detail}


def after(*reports: dict[str, Any]) -> dict[str, Any]:
    """Add these reports in order, and return the saved results of codex."""
    record: dict[str, Any] = {"schema": kept.SCHEMA, "engines": {}}
    for report_ in reports:
        record = kept.added(record, report_, {"codex": ["0.118.0", "0.9.0", "0.117.0"]})
    engine: dict[str, Any] = record["engines"]["codex"]
    return engine


def test_readme_holds_the_table_that_the_data_gives() -> None:
    """The table in the README is the generated one."""
    assert in_readme(README.read_text("utf-8"), KEPT) == README.read_text("utf-8"), "make compatibility"


@pytest.mark.long
def test_page_is_the_one_that_the_data_gives() -> None:
    """The compatibility page is the generated one."""
    assert page(KEPT) == PAGE.read_text("utf-8"), "make compatibility"


def test_what_is_kept_is_written_as_it_was_read(tmp_path: Path) -> None:
    """Reading and writing the saved results changes no byte."""
    kept.write(KEPT, tmp_path / "kept.json")
    assert (tmp_path / "kept.json").read_bytes() == kept.KEPT.read_bytes()


@every_engine
def test_releases_that_were_run_show_the_deviations_that_the_contract_declares(name: str) -> None:
    """Tested releases show exactly the declared deviations, except for hangs, which depend on timing."""
    for version, release_ in KEPT["engines"][name]["releases"].items():
        unseen, undeclared = disagreeing(name, version, release_)
        assert all(deviation.startswith(("backend.failure-told: hang", *NEWER)) for deviation in unseen), version
        assert undeclared == [], version


# clauses that are newer than the rows, so that no row can show them
NEWER = (
    "interactive.settings-cannot-widen",
    "workspace.cannot-redirect",
    "sticky.settings-cannot-widen",
    "sticky.workspace-cannot-redirect",
    "sticky.permission-allowed",
)


@every_engine
def test_deviations_begin_and_end_where_both_neighbours_were_run(name: str) -> None:
    """Where a deviation begins or ends, both releases were tested, or its note says that they weren't."""
    edges = [edge for edge in boundaries(name, KEPT["engines"][name]) if ": " in edge.claim and not edge.unverified]
    deviating = [edge for edge in edges if not edge.claim.startswith(("options", "auto_flags", *NEWER))]
    assert [edge for edge in deviating if not edge.exact and "not asked" not in edge.note] == []


def test_what_held_is_left_out_and_what_changes_each_time_too() -> None:
    """Passes and run-specific details are left out, so that a second run changes nothing."""
    detail = "exit code 0 and a fresh session 01a2012d-f78e-70f2-95cc-e206268e364c; 500: still running after 22 s"
    record = after(
        report(
            release(
                "0.9.0",
                clause("handle.shape", "pass", "matches"),
                clause("handle.place", "not_run", "needs handle.present, which is fail"),
                clause("resume.isolation", "fail", detail),
            )
        )
    )
    results = {
        "resume.isolation": {"result": "fail", "detail": "exit code 0 and a fresh session <id>; 500: still running"}
    }
    assert record["releases"] == {"0.9.0": {"verdict": "degraded", "profile": "resumable", "found": results}}
    assert record["machine"] == "Linux x86_64, Node.js 20.1.0"


def test_a_deviation_is_kept_by_its_symptoms() -> None:
    """A deviation is saved with its declared symptoms, without those that did not occur."""
    detail = "x; an orchestrator must y; stale: the declared deviation hang-500 did not occur"
    record = after(report(release("0.169.0", clause("backend.failure-told", "deviates", detail))))
    assert record["releases"]["0.169.0"]["found"]["backend.failure-told"]["symptoms"] == ["hang-away"]


def test_a_broken_release_is_kept_with_its_reason_and_the_names_of_what_fails() -> None:
    """A broken release is saved with its failing baseline as the reason, and without other details."""
    clauses = (clause("version.readable", "fail", "x"), clause("handle.present", "fail", "still running after 3 s"))
    saved = after(report(release("0.9.0", *clauses, verdict="broken")))["releases"]["0.9.0"]
    assert saved["why"] == "handle.present: still running"
    assert saved["found"] == {"version.readable": {"result": "fail"}, "handle.present": {"result": "fail"}}


def test_releases_stand_in_their_order() -> None:
    """Releases are sorted by version: 0.9.0 is older than 0.117.0."""
    record = after(report(release("0.118.0")), report(release("0.9.0"), release("0.117.0")))
    assert list(record["releases"]) == record["published"] == ["0.9.0", "0.117.0", "0.118.0"]


def test_single_clauses_never_replace_a_whole_answer() -> None:
    """Results of selected clauses never replace complete ones, but are merged with each other."""
    few = report(release("0.9.0", verdict="broken"), asked=("help.surface",))
    assert after(report(release("0.9.0")), few)["releases"]["0.9.0"]["verdict"] == "degraded"
    assert after(few)["releases"]["0.9.0"] == {"asked": ["help.surface"], "found": {}}
    assert "asked" not in after(few, report(release("0.9.0")))["releases"]["0.9.0"]
    more = report(release("0.9.0"), asked=("stdin.open",))
    assert after(few, more)["releases"]["0.9.0"]["asked"] == ["help.surface", "stdin.open"]


def test_neighbours_that_came_out_alike_are_one_row() -> None:
    """Releases with equal results share a row, even if one between them was only partly tested."""
    few = report(release("0.47.0"), asked=("help.surface",))
    engine = after(report(release("0.45.0"), release("0.58.0")), few)
    assert [versions for versions, _ in stretches("codex", engine)] == [["0.45.0", "0.58.0"]]


@pytest.mark.parametrize(
    "asked, claim, neighbour",
    [
        (None, "help", "0.9.0"),
        (("help.surface",), "help", "0.9.0"),
        (("resume.accepted",), "help", None),
        (("help.surface",), "resume.dead-handle: fresh-session", None),
        (("resume.dead-handle",), "resume.dead-handle: fresh-session", "0.9.0"),
    ],
)
def test_a_release_that_was_asked_single_clauses_shows_nothing_of_other_claims(
    asked: tuple[str, ...] | None, claim: str, neighbour: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partly tested release only counts for claims whose evidence is a tested clause."""
    contract = deepcopy(load.contract("codex"))
    contract.document.data["help"]["until"] = "0.117.0"
    monkeypatch.setattr(load, "contract", lambda _: contract)
    engine = after(report(release("0.9.0"), asked=asked or ()), report(release("0.117.0")))
    known_from = {edge.claim: edge.before for edge in boundaries("codex", engine) if edge.version == "0.117.0"}
    assert known_from[claim] == neighbour


@pytest.mark.long
def test_release_that_could_not_be_had_says_why() -> None:
    """An unavailable release counts as unanswered, not as tested, and the page says why."""
    lost = release(
        "0.118.0",
        verdict="unanswered",
        failed={"reason": "no_executable", "what": "no build for this platform", "hint": ""},
    )
    engine = after(report(release("0.9.0"), lost))
    reported = {"schema": kept.SCHEMA, "engines": {"codex": engine}}
    assert "| Codex CLI | 1 of 3 | 0 | 1 | 0 | 1 | 0.9.0 | 0.118.0: unanswered |" in summary(reported)
    assert "no build for this platform" in page(reported)
    assert "1 of 3 published releases were tested completely, on" in page(reported)


def test_readme_without_marks_is_refused() -> None:
    """A README without the marks is rejected."""
    with pytest.raises(ValueError, match="compatibility"):
        in_readme("# turngate\n", KEPT)
