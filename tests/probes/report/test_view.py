"""What every format shows, decided once."""

from collections import Counter

import pytest
from msgspec import structs

from tests.probes.gate import views
from tests.probes.report import journals as j
from tests.probes.report import samples
from turngate.contract.verdict import FailOn
from turngate_probes.report.structs import ProbeReport
from turngate_probes.report.view import JudgedCase, judged, known, view


def cases(report: ProbeReport, number: int) -> dict[str, JudgedCase]:
    """Return the cases of the release of this number, by name."""
    return {case.name: case for case in view(report).cases(report.releases[number])}


@pytest.mark.parametrize("releases, headline", [
    ((), "Nothing was probed"),
    (({"verdict": "degraded"},), "codex@0.1.0 is degraded"),
    (({"source": "recordings"},), "codex@0.1.0 is compatible, from recordings"),
    (({}, {}), "All 2 releases are compatible"),
    (({"verdict": "broken"}, {}), "1 of 2 releases is broken"),
    (({"verdict": "degraded"}, {}, {"verdict": "degraded"}), "2 of 3 releases are degraded"),
])  # fmt: skip
def test_the_headline_is_about_the_worst(releases: tuple[dict[str, str], ...], headline: str) -> None:
    """A single release is named, several are counted."""
    listed = [samples.whole(release=f"codex@0.{n}.0", **fields) for n, fields in enumerate(releases, 1)]
    assert view(samples.of(*listed)).headline == headline


@pytest.mark.parametrize("fields, meaning", [
    ({}, "a release is broken"),
    ({"fail_on": "degraded"}, "a release is broken or degraded, or a declared deviation no longer occurs"),
    ({"fail_on": "caveat"}, "a release is broken or degraded, or has known caveats"),
    ({"exit_code": 130, "interrupted": True}, "interrupted"),
    ({"exit_code": 2, "releases": ()}, "there was nothing to probe"),
])  # fmt: skip
def test_the_exit_code_has_a_meaning(fields: dict[str, object], meaning: str) -> None:
    """Which depends on what was asked."""
    assert view(structs.replace(samples.mixed(), **fields)).meaning == meaning


def test_verdicts_are_counted_the_worst_first() -> None:
    """Those that no release has are there too."""
    counts = view(samples.of(samples.whole(verdict="degraded"))).verdicts
    assert list(counts.items()) == [("broken", 0), ("unanswered", 0), ("degraded", 1), ("compatible", 0)]


def test_each_clause_is_judged_by_its_result() -> None:
    """A failure keeps its evidence, and a release that was not asked is open."""
    report = samples.mixed()
    broken, degraded, unasked = (cases(report, number) for number in (0, 1, 3))
    assert Counter(case.judgement for case in broken.values()) == {"passed": 25, "failed": 2}
    assert (broken["help.surface"].text, broken["help.surface"].kind) == ("--json is gone", "degraded")
    assert broken["resume.accepted"].clause in report.releases[0].clauses
    assert degraded["resume.other-cwd"].judgement == degraded["prompt.large"].judgement == "noted"
    assert degraded["stdin.open"] == JudgedCase("stdin.open", "skipped", "unsupported: it takes no input")
    assert unasked["handle.present"].judgement == "skipped"
    assert unasked["turngate.answered"].judgement == "open"
    assert (unasked["turngate.answered"].text, unasked["turngate.answered"].hint) == (
        "npm is absent",
        "install Node.js",
    )


def test_a_stale_deviation_fails_under_strict() -> None:
    """As the exit code says."""
    stale = j.clause("stdin.open", detail="ended", stale=True).judged()
    assert judged(stale).text == "stale: ended"
    assert judged(stale, FailOn.DEGRADED) == JudgedCase("stdin.open", "failed", "ended", "stale")


def test_a_gate_judges_by_its_ruling() -> None:
    """What is excused is skipped, what is only degraded is noted, and each reason fails by its kind."""
    green, red = views.green_by_baseline(), views.red_by_all()
    excused = {case.name: case.judgement for case in view(green).cases(green.judged)}
    assert (excused[views.DEAD], excused["stdin.open"]) == ("skipped", "noted")
    failed = {case.name: case.kind for case in view(red).cases(red.judged) if case.judgement == "failed"}
    assert failed == {views.DEAD: "breaking", "baseline resume.accepted": "baseline"}
    lost = views.unanswered()
    assert [case.kind for case in view(lost).cases(lost.judged) if case.judgement == "open"] == ["unanswered"]


def test_remarks_name_their_release_and_the_severest_come_first() -> None:
    """What could not be asked is an error."""
    shown = view(samples.mixed()).remarks
    assert [(remark.level, remark.title) for remark in shown] == [
        ("error", "opencode@1.0.0"), ("error", "codex@0.169.0 resume.accepted"),
        ("warning", "codex@0.169.0 help.surface"),
    ]  # fmt: skip


def test_clauses_that_fell_with_others_stand_apart() -> None:
    """They are no differences of their own."""
    lost = [j.clause(name, "not_run", detail="needs", needs=["handle.present"]) for name in ("handle.place",)]
    failed = j.clause("handle.present", "fail", detail="no id")
    shown = view(views.of(views.release(views.OLD), views.release(views.NEW, failed, *lost, verdict="broken")))
    assert [row.subject for row in shown.fallen] == ["handle.place"]
    assert "handle.present" in {row.subject for row in shown.differences}
    assert "handle.place" not in {row.subject for row in shown.differences}


def test_a_clause_of_another_turngate_is_not_known() -> None:
    """Reports are read from files too."""
    entry = known("resume.accepted")
    assert entry is not None
    assert entry.sentence
    assert known("resume.unheard-of") is None
