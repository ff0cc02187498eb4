"""How a clause is judged, and that every format judges it the same way."""

from collections import Counter

from tests.probes.gate import views
from tests.probes.report import journals as j
from tests.probes.report import samples
from turngate.contract.verdict import FailOn
from turngate_probes.report.judgement import JudgedCase, judged
from turngate_probes.report.structs import ProbeReport
from turngate_probes.report.view import view


def cases(report: ProbeReport, number: int) -> dict[str, JudgedCase]:
    """Return the cases of the release of this number, by name."""
    return {case.name: case for case in view(report).cases(report.releases[number])}


def test_each_clause_is_judged_by_its_result() -> None:
    """A failure keeps its evidence, and a release that was not asked is open."""
    report = samples.mixed()
    broken, degraded, unasked = (cases(report, number) for number in (0, 1, 3))
    assert Counter(case.judgement for case in broken.values()) == {"passed": 25, "failed": 1, "warned": 1}
    assert (broken["help.surface"].text, broken["help.surface"].kind) == ("--json is gone", "degraded")
    assert broken["resume.accepted"].clause in report.releases[0].clauses
    assert degraded["resume.other-cwd"].text == "known caveat: tied; to do: stay in the directory of the first turn"
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
    assert judged(stale, FailOn.DEGRADED) == JudgedCase("stdin.open", "failed", "stale: ended", "stale", stale)


def test_a_gate_judges_by_its_ruling() -> None:
    """What is excused is skipped, what is only degraded is a warning, and each reason fails by its kind."""
    green, red = views.green_by_baseline(), views.red_by_all()
    excused = {case.name: case.judgement for case in view(green).cases(green.judged)}
    assert (excused[views.DEAD], excused["stdin.open"]) == ("skipped", "warned")
    failed = {case.name: case.kind for case in view(red).cases(red.judged) if case.judgement == "failed"}
    assert failed == {views.DEAD: "breaking", "baseline resume.accepted": "baseline"}
    lost = views.unanswered()
    assert [case.kind for case in view(lost).cases(lost.judged) if case.judgement == "open"] == ["unanswered"]
