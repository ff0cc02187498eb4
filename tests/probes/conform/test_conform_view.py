"""The results of `turngate conform`: as they come, and in each report format."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from markdown_it import MarkdownIt
from msgspec.structs import replace

from tests.probes.conform.reports import FAILED, MILD, REPORT, ROWS, row
from turngate import TurngateError
from turngate_probes.conform.catalogue import NOT_REACHED, rules
from turngate_probes.conform.conform_report import Conformance, ConformReport, ScenarioResult
from turngate_probes.conform.conform_view import ConformProgress, row_lines, view
from turngate_probes.report.github import annotations
from turngate_probes.report.junit import junit
from turngate_probes.report.lines import Detail
from turngate_probes.report.markdown import markdown
from turngate_probes.report.page import page
from turngate_probes.report.progress import HEARTBEAT
from turngate_probes.report.publish import Printer, publish
from turngate_probes.report.text import report_lines


def why(rule: str) -> str:
    """Return why a rule matters, as a report says it."""
    return f"why: {rules()[f'orchestrator.{rule}'].why}"


def summary(report: ConformReport) -> str:
    """Return the text after the results."""
    return "\n".join(line.plain for _, line in report_lines(view(report)))


def test_each_result_is_told_with_its_number(capsys: pytest.CaptureFixture[str]) -> None:
    """--quiet leaves out what passes."""
    progress = ConformProgress(Printer(), 2)
    progress(ROWS[0])
    progress(ROWS[1])
    out = capsys.readouterr().out
    assert "two-turns  1.5 s  [1/2]" in out
    assert "hang-before-answer  1.5 s  [2/2]\n  what happens: The second turn" in out
    quiet = ConformProgress(Printer(detail=Detail.QUIET), 2)
    quiet(ROWS[0])
    quiet(ROWS[1])
    assert capsys.readouterr().out.startswith("fail")


def test_a_while_without_a_result_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """A scenario that hangs is silent for minutes; --quiet is silent on purpose."""
    times = iter([0.0, 10.0, 30.0, 40.0, 40.0, 60.0])
    progress = ConformProgress(Printer(), 2, lambda: next(times))
    progress(replace(ROWS[0], result=ScenarioResult.PASS, breaches=()))
    assert [progress.beat(), progress.beat(), progress.beat()] == [10.0, HEARTBEAT, 10.0]
    assert capsys.readouterr().out.splitlines()[1:] == ["1 of 2 scenarios done; one that waits can take two minutes"]
    later = iter([0.0, HEARTBEAT])
    assert ConformProgress(Printer(detail=Detail.QUIET), 2, lambda: next(later)).beat() == HEARTBEAT
    assert not capsys.readouterr().out


def test_what_is_not_reached_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """All have one cause, which is told before."""
    progress = ConformProgress(Printer(), 3)
    for result in ROWS[:3]:
        progress(replace(result, result=ScenarioResult.SKIPPED, detail=NOT_REACHED, breaches=()))
    assert capsys.readouterr().out == f"skipped    codex 0.169.0  the others  {NOT_REACHED}\n"


def test_what_runs_is_told_first(capsys: pytest.CaptureFixture[str]) -> None:
    """With several jobs the longest scenarios come first, so results take a while."""
    progress = ConformProgress(Printer(), 40)
    progress.begin(40, ["codex 0.169.0"], jobs=1)
    progress.begin(40, ["codex 0.169.0", "gemini 0.61.0"], jobs=4)
    ConformProgress(Printer(detail=Detail.QUIET), 1).begin(1, ["codex 0.169.0"], jobs=1)
    assert capsys.readouterr().out.splitlines() == [
        "40 scenarios with codex 0.169.0; --jobs 4 is faster if your driver can run several times at once",
        "40 scenarios with codex 0.169.0, gemini 0.61.0, 4 at a time, the longest first",
    ]


def test_a_row_says_what_is_broken_and_why_it_matters() -> None:
    """An expected breach shows its reason instead."""
    lines = [line.plain for _, line in row_lines(ROWS[1])]
    assert lines[0] == "fail       codex 0.169.0  hang-before-answer  1.5 s"
    assert lines[1] == "what happens: The second turn prints nothing and never ends."
    assert lines[2].startswith("orchestrator.ends-hangs (call 2): it was still running | after 25 s")
    assert lines[3].startswith("why: A hanging engine")
    assert lines[4] == "the engine's last line on stderr: Not inside a trusted directory"
    assert [line.plain for _, line in row_lines(ROWS[2])][3] == "expected: known"
    assert [line.plain for _, line in row_lines(ROWS[3])] == ["unanswered codex 0.169.0  crash  1.5 s  never started"]


def test_one_breach_in_many_scenarios_is_one_finding(capsys: pytest.CaptureFixture[str]) -> None:
    """It is explained where it is first seen; after that, and in the list of problems, only the scenarios are named."""
    rows = tuple(row(name, ScenarioResult.FAIL, FAILED) for name in ("two-turns", "crash", "no-id"))
    progress = ConformProgress(Printer(), 3)
    for each in rows:
        progress(each)
    out = capsys.readouterr().out
    assert out.count("why: ") == 1
    assert "crash  1.5 s  as before: orchestrator.ends-hangs  [2/3]" in out
    report = replace(REPORT, results=rows, stale=())
    (remark,) = view(report).remarks
    assert (remark.about, remark.also) == ("two-turns", ("crash", "no-id"))
    assert remark.text.endswith("; also in crash, no-id")
    assert "broken in two-turns, crash, no-id" in summary(report)


def test_the_summary_ends_with_the_exit_code() -> None:
    """It counts results and names each broken rule with its scenarios."""
    text = summary(REPORT)
    assert "broken: 1 pass, 1 fail, 1 excused, 1 unanswered, 1 skipped" in text
    assert "orchestrator.ends-hangs: A turn that hangs ends within its deadline.\nbroken in hang-before-answer" in text
    assert "no breach needs this entry any more, so remove it: orchestrator.stdin" in text
    assert "never started" not in text, "it stands with its scenario already"
    assert text.endswith("10 s\nexit code 1: the orchestrator breaks a rule")


def test_a_report_is_written_in_each_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON goes to stdout, and text to stderr."""
    files = tuple(tmp_path / f"r{suffix}" for suffix in (".json", ".xml", ".md", ".html"))
    assert publish(view(REPORT), Printer(as_json=True, reports=files)) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out) == json.loads(files[0].read_text())
    assert "exit code 1" in printed.err
    assert files[1].read_text().startswith("<?xml")
    (tmp_path / "file").touch()
    with pytest.raises(TurngateError, match="can't write the report"):
        publish(view(REPORT), Printer(reports=(tmp_path / "file" / "r.json",)))


def test_markdown_has_the_problems_and_a_table() -> None:
    """A pipe or a line break in a detail doesn't end a cell."""
    assert markdown(view(REPORT)).startswith("## ❌ python driver.py: broken\n")
    html = MarkdownIt("commonmark").enable("table").render(markdown(view(REPORT)))
    assert html.count("<td>") == 4 * len(ROWS)
    assert "<code>orchestrator.ends-hangs</code>: it was still running | after 25 s\\n</td>" in html
    assert "interrupted" not in html
    assert "interrupted, so the results are incomplete" in markdown(view(replace(REPORT, interrupted=True)))


def test_junit_counts_each_result() -> None:
    """A failure, an error and a skipped test case."""
    suite = ET.fromstring(junit(view(REPORT)))[0]
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["5", "1", "1", "1"]
    cases = suite.findall("testcase")
    assert [child.tag for case in cases for child in case] == ["failure", "system-out", "error", "skipped"]
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert len((failure.text or "").splitlines()) >= 2
    assert (failure.get("message") or "").startswith("call 2: it was still running")
    assert why("ends-hangs") in (failure.text or "")


def test_what_is_not_essential_is_no_failure_unless_the_exit_code_says_so() -> None:
    """JUnit, which CI reads, agrees with the exit code."""
    mild = replace(REPORT, results=(row("banner", ScenarioResult.FAIL, MILD),), verdict=Conformance.DEGRADED)
    for code, failures, sign in ((0, "0", "🟡"), (1, "1", "❌")):
        shown = view(replace(mild, exit_code=code, stale=()))
        assert ET.fromstring(junit(shown))[0].get("failures") == failures
        assert markdown(shown).startswith(f"## {sign}")
        assert ("only rules that aren't essential" in shown.meaning) is (code == 0)


def test_a_broken_rule_is_an_annotation_and_a_mild_one_warns() -> None:
    """Annotations have the severity of the rule, and why it matters; what the baseline no longer needs is a notice."""
    report = replace(REPORT, results=(*ROWS, row("banner", ScenarioResult.FAIL, MILD)))
    hangs = f"it was still running | after 25 s%0A ({why('ends-hangs')})"
    silent = f"it printed nothing ({why('reads-any-output')})"
    assert annotations(view(report)) == [
        f"::error title=codex 0.169.0 hang-before-answer::orchestrator.ends-hangs (call 2): {hangs}",
        "::error title=codex 0.169.0 crash::unanswered: never started",
        f"::warning title=codex 0.169.0 banner::orchestrator.reads-any-output: {silent}",
        "::notice title=baseline::no breach needs this entry any more, so remove it: orchestrator.stdin",
    ]


def test_the_page_has_a_row_for_each_scenario_and_a_column_for_each_engine() -> None:
    """A scenario that did not run with an engine, because of an interrupt, has an empty cell."""
    other = replace(row("crash", ScenarioResult.FAIL, FAILED), engine="gemini", version="0.61.0")
    shown = view(replace(REPORT, results=(*ROWS, other)))
    assert [column.title for column in shown.columns] == ["codex 0.169.0", "gemini 0.61.0"]
    marks = {each.id: [cell and cell.state for cell in each.cells] for family in shown.families for each in family.rows}
    assert marks["crash"] == ["unanswered", "fail"]
    assert marks["two-turns"] == ["pass", None]
    assert len(marks) == len(ROWS)


def test_the_page_shows_problems_first_and_each_call() -> None:
    """A problem links to its cell, which has the rule, the evidence and the calls with their arguments."""
    text = page(view(REPORT))
    assert text.index('id="problems"') < text.index('class="matrix')
    assert 'aria-label="codex 0.169.0, hang-before-answer: fail"' in text
    assert "A turn that hangs ends within its deadline." in text
    assert '<pre class="argv" tabindex="0">exec -</pre>' in text
    assert "no breach needs this entry any more, so remove it: orchestrator.stdin" in text


def test_an_observed_command_and_nothing_at_all_are_pages() -> None:
    """An observed command is one row that is no scenario of ours; a run that was interrupted early has none."""
    observed = row("observed", ScenarioResult.FAIL, FAILED)
    assert "codex 0.169.0, observed: fail" in page(view(replace(REPORT, mode="observed", results=(observed,))))
    assert "Nothing was tested." in page(view(replace(REPORT, results=(), interrupted=True, exit_code=130)))


def test_stale_entries_are_no_broken_rule() -> None:
    """With --strict they alone make the exit code 1, and its meaning says so."""
    report = replace(REPORT, verdict=Conformance.CONFORMS, exit_code=1, results=ROWS[:1])
    assert view(report).meaning == "the baseline has entries that no breach needs"
