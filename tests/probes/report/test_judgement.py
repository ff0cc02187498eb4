"""Every output format shows the same judgement of a clause."""

import json
import re
import warnings
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast
from xml.etree import ElementTree as ET

import pytest

from tests.probes.gate import views
from tests.probes.report import journals as j
from tests.probes.report import samples
from tests.probes.report.samples import EVERY
from turngate.contract.verdict import FailOn
from turngate_probes.journal.events import Event
from turngate_probes.pytest_plugin.items import ClauseFailed, ClauseTest
from turngate_probes.report.build import code_of
from turngate_probes.report.github import annotations
from turngate_probes.report.junit import junit
from turngate_probes.report.markdown import markdown
from turngate_probes.report.release_view import view
from turngate_probes.report.reports import ProbeReport, ReleaseReport
from turngate_probes.report.sarif import sarif
from turngate_probes.report.text import report_lines
from turngate_probes.report.view import JudgedCase


def cases(report: ProbeReport, number: int) -> dict[str, JudgedCase]:
    """Return the cases of the release with this index, by name."""
    return {case.name: case for case in view(report).suites[number].cases}


def test_each_clause_is_judged_by_its_result() -> None:
    """A failed clause keeps its evidence; a release that was not probed is open."""
    report = samples.mixed()
    broken, degraded, unasked = (cases(report, number) for number in (0, 1, 3))
    assert Counter(case.judgement for case in broken.values()) == {"passed": EVERY - 2, "failed": 1, "warned": 1}
    assert (broken["help.surface"].text, broken["help.surface"].kind) == ("--json is gone", "degraded")
    assert broken["resume.accepted"].clause in report.releases[0].clauses
    assert degraded["resume.other-cwd"].text == "known caveat: tied; to do: stay in the directory of the first turn"
    assert degraded["resume.other-cwd"].judgement == degraded["prompt.large"].judgement == "noted"
    assert (degraded["stdin.open"].judgement, degraded["stdin.open"].text) == (
        "skipped",
        "unsupported: it takes no input",
    )
    assert unasked["handle.present"].judgement == "skipped"
    assert unasked["turngate.answered"].judgement == "open"
    assert (unasked["turngate.answered"].text, unasked["turngate.answered"].hint) == (
        "npm is absent",
        ("install Node.js",),
    )


def test_a_stale_deviation_fails_under_strict() -> None:
    """The judgement of a stale deviation agrees with the exit code."""
    stale = samples.whole(j.clause("stdin.open", detail="ended", stale=True))
    judged = {fail_on: cases(samples.of(stale, fail_on=fail_on), 0)["stdin.open"] for fail_on in FailOn}
    assert [case.judgement for case in judged.values()] == ["noted", "failed", "failed"]
    assert {(case.text, case.kind) for case in judged.values()} == {("stale: ended", "stale")}


def test_a_gate_judges_by_its_ruling() -> None:
    """The judgement follows the gate's ruling: excused is skipped, degraded is a warning, the rest fails by kind."""
    green, red = views.green_by_baseline(), views.red_by_all()
    excused = {case.name: case.judgement for case in view(green).suites[0].cases}
    assert (excused[views.DEAD], excused["stdin.open"]) == ("skipped", "warned")
    failed = {case.name: case.kind for case in view(red).suites[0].cases if case.judgement == "failed"}
    assert failed == {views.DEAD: "breaking", "baseline resume.accepted": "baseline"}
    lost = views.unanswered()
    assert [case.kind for case in view(lost).suites[0].cases if case.judgement == "open"] == ["unanswered"]


def test_remarks_name_their_release_and_the_severest_come_first() -> None:
    """Remarks name their release, the severest first; a release that could not be probed is an error."""
    shown = view(samples.mixed()).remarks
    assert [(remark.level, remark.title) for remark in shown] == [
        ("error", "opencode@1.0.0"),
        ("error", "codex@0.169.0 resume.accepted"),
        ("warning", "codex@0.169.0 help.surface"),
        ("note", "gemini@0.61.0 prompt.large"),
    ]


def test_what_fails_a_gate_is_remarked_on_with_its_result() -> None:
    """Each reason, other failures, then what the baseline excuses; a clause that fails keeps its result."""
    shown = view(views.red_by_all()).remarks
    assert [(remark.level, remark.rule, remark.at) for remark in shown] == [
        ("error", views.DEAD, ""),
        ("error", "gate.baseline", "b.yaml:3"),
    ]
    assert [remark.clause and remark.clause.result for remark in shown] == ["fail", None]
    excused = view(views.green_by_baseline()).remarks
    assert [(remark.level, remark.name, remark.rule) for remark in excused] == [
        ("warning", "stdin.open", "stdin.open"),
        ("note", views.DEAD, None),
        ("note", "", None),
    ]


OTHER = "resume.other-cwd"
JUDGEMENTS = {  # of each release, for each --fail-on
    "codex@1.0.0": ("failed", "failed", "failed"),
    "codex@2.0.0": ("warned", "failed", "failed"),
    "codex@3.0.0": ("passed", "failed", "failed"),
    "codex@4.0.0": ("passed", "passed", "failed"),
    "codex@5.0.0": ("open", "open", "open"),
    "codex@6.0.0": ("open", "open", "open"),
    "codex@7.0.0": ("passed", "passed", "passed"),
}
SELECTED = {
    "codex@1.0.0": ("failed", "failed", "failed"),
    "codex@2.0.0": ("warned", "failed", "failed"),
    "codex@3.0.0": ("open", "open", "open"),
    "codex@4.0.0": ("passed", "passed", "passed"),
}


def one_of_each() -> list[list[Event]]:
    """Return releases that are broken, degraded, stale, with a caveat, unanswered, not probed, and good."""
    lost = j.clause("resume.isolation", "not_run", detail="the disk is full", reason="machine", evidence=[])
    changed = [
        (j.clause("resume.accepted", "fail", detail="refused"), "broken"),
        (j.clause("stdin.open", "fail", detail="hangs"), "degraded"),
        (j.clause("prompt.large", detail="as expected", stale=True), "compatible"),
        (j.clause(OTHER, "deviates", detail="tied"), "compatible"),
        (lost, "unanswered"),
    ]
    releases = [
        samples.whole(event, verdict=verdict, release=f"codex@{number}.0.0")
        for number, (event, verdict) in enumerate(changed, 1)
    ]
    unasked = [j.planned("codex@6.0.0"), j.failed("codex@6.0.0", what="npm is absent")]
    return [*releases, unasked, samples.whole(release="codex@7.0.0")]


def selected() -> list[list[Event]]:
    """Return releases with two selected clauses, which break, degrade, could not run or pass."""
    lost: Any = {"detail": "the disk is full", "reason": "machine", "evidence": []}
    results = [("fail", "pass", {}), ("pass", "fail", {}), ("pass", "not_run", lost), ("pass", "pass", {})]
    listed = []
    for number, (first, second, fields) in enumerate(results, 1):
        release = f"codex@{number}.0.0"
        clauses = [j.clause("version.readable", first, release), j.clause("help.surface", second, release, **fields)]
        listed.append([j.planned(release), j.turn(release), *clauses, j.finished(release, None)])
    return listed


def of_exit_code(report: ProbeReport) -> dict[str, str]:
    """Return the judgement that the exit code implies for each release; 0 doesn't distinguish warnings."""
    codes = {r.release: code_of([r], report.fail_on, interrupted=False) for r in report.releases}
    return {release: {0: "passed", 1: "failed", 2: "open"}[code] for release, code in codes.items()}


def of_text(report: ProbeReport) -> dict[str, str]:
    """Return the judgement of the first word of each line about a release."""
    words = {"fail": "failed", "degraded": "warned", "unanswered": "open", "not tested": "open"}
    judgements, release = {r.release: "passed" for r in report.releases}, ""
    for depth, line in report_lines(view(report), None):
        if depth == 0:
            title = re.match(r"codex (\d\.0\.0) \(", line.plain)
            release = f"codex@{title[1]}" if title else ""
        for word, judgement in words.items():
            if release and depth == 1 and line.plain.startswith(f"{word} "):
                judgements[release] = judgement
    return judgements


def of_junit(report: ProbeReport) -> dict[str, str]:
    """Return the judgement of the test cases of each suite."""
    judgements = {}
    for suite in ET.fromstring(junit(view(report))):
        said = "\n".join(element.text or "" for element in suite.iter("system-out"))
        red = "failed" if int(suite.get("failures", "")) else "open" if int(suite.get("errors", "")) else ""
        judgements[suite.get("name", "")] = red or ("warned" if said.startswith("degraded: ") else "passed")
    return judgements


def of_markdown(report: ProbeReport) -> dict[str, str]:
    """Return the judgement shown by the sign in each row of the table."""
    signs = {"❌": "failed", "❔": "open", "🟡": "warned", "✅": "passed"}
    rows = re.findall(r"^\| (codex&#64;\S+) \| (\S+) ", markdown(view(report)), re.MULTILINE)
    return {name.replace("&#64;", "@"): signs[sign] for name, sign in rows}


def of_sarif(report: ProbeReport) -> dict[str, str]:
    """Return the judgement shown by the level of results and by error notifications."""
    (run,) = json.loads(sarif(view(report)))["runs"]
    judgements = {release.release: "passed" for release in report.releases}
    for result in run["results"]:
        judgements[result["properties"]["release"]] = {"error": "failed", "warning": "warned"}[result["level"]]
    for note in run["invocations"][0]["toolExecutionNotifications"]:
        if note["level"] == "error":
            judgements[note["message"]["text"].partition(" ")[0]] = "open"
    return judgements


def of_annotations(report: ProbeReport) -> dict[str, str]:
    """Return the judgement shown by the kind of annotation; an error without a clause is an open question."""
    judgements = {release.release: "passed" for release in report.releases}
    for line in annotations(view(report)):
        if match := re.match(r"::(error|warning) .*title=(codex@[\d.]+)( \S+)?::", line):
            failed = "failed" if match[3] else "open"
            judgements[match[2]] = failed if match[1] == "error" else "warned"
    return judgements


def of_pytest(report: ProbeReport) -> dict[str, str]:
    """Return the worst test outcome of each release."""
    return {release.release: _outcome(release, report.fail_on) for release in report.releases}


def _outcome(release: ReleaseReport, fail_on: FailOn) -> str:
    outcomes = set()
    for clause in release.clauses:
        item = SimpleNamespace(
            name=clause.id,
            add_report_section=lambda *_: None,
            parent=SimpleNamespace(
                name=release.release,
                target=None,
                probed=SimpleNamespace(release=lambda _: release, fail_on=fail_on),
            ),
        )
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                ClauseTest.runtest(cast("ClauseTest", item))
                outcomes.add("warned" if warned else "passed")
            except ClauseFailed as failed:
                outcomes.add("open" if "could not be tested" in str(failed) or "not run: " in str(failed) else "failed")
            except pytest.skip.Exception:  # raised by the plugin, not by this test: a clause that did not run
                outcomes.add("passed")
    return next(word for word in ("failed", "open", "warned", "passed") if word in outcomes)


@pytest.mark.parametrize("number, fail_on", list(enumerate(FailOn)))
@pytest.mark.parametrize("clauses", [(), ("help.surface", "version.readable")])
@pytest.mark.parametrize("judge", [of_text, of_junit, of_markdown, of_sarif, of_annotations, of_pytest, of_exit_code])
def test_every_format_gives_a_failure_the_same_judgement(
    judge: Callable[[ProbeReport], dict[str, str]], clauses: tuple[str, ...], number: int, fail_on: FailOn
) -> None:
    """A failure in one format is a failure in all formats, and in the exit code."""
    releases, expected = (selected(), SELECTED) if clauses else (one_of_each(), JUDGEMENTS)
    judgements = {release: by_fail_on[number] for release, by_fail_on in expected.items()}
    if judge is of_exit_code:
        judgements = {release: word.replace("warned", "passed") for release, word in judgements.items()}
    assert judge(samples.of(*releases, fail_on=fail_on, clauses=clauses)) == judgements
