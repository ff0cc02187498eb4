"""Reports as text."""

from xml.etree import ElementTree as ET

from msgspec.structs import replace

from tests.probes.conform.reports import REPORT, ROWS
from turngate_probes.conform.publish import junit, markdown, row_lines, summary_lines


def test_a_row_says_what_is_broken_and_why_it_matters() -> None:
    """An expected breach shows its reason instead."""
    lines = [line.plain for _, line in row_lines(ROWS[1])]
    assert lines[0] == "fail       codex 0.169.0  hang-before-answer  1.5 s"
    assert lines[1].startswith("orchestrator.ends-hangs (call 2): it was still running | after 25 s")
    assert lines[2].startswith("why: Otherwise, a hanging engine")
    assert [line.plain for _, line in row_lines(ROWS[2])][2] == "expected: known"
    assert [line.plain for _, line in row_lines(ROWS[3])] == ["unanswered codex 0.169.0  crash  1.5 s  never started"]


def test_the_summary_ends_with_the_exit_code() -> None:
    """It counts results and names each broken rule with its scenarios."""
    text = "\n".join(line.plain for _, line in summary_lines(REPORT))
    assert "broken: 1 pass, 1 fail, 1 excused, 1 unanswered, 1 skipped" in text
    assert "orchestrator.ends-hangs: A turn that hangs ends within its deadline.\nbroken in hang-before-answer" in text
    assert "no longer needed in the baseline: orchestrator.stdin" in text
    assert text.endswith("exit code 1: the orchestrator breaks a rule\n10 s")


def test_markdown_is_a_table() -> None:
    """A pipe or a line break in a detail doesn't end a cell."""
    lines = markdown(REPORT).splitlines()
    assert lines[0] == "# python driver.py: broken"
    assert all(line.replace("\\|", "").count("|") == 5 for line in lines[2:])
    assert "interrupted" not in markdown(REPORT)
    assert "The run was interrupted" in markdown(replace(REPORT, interrupted=True))


def test_junit_counts_each_result() -> None:
    """A failure, an error and a skipped test case."""
    suite = ET.fromstring(junit(REPORT))[0]
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["5", "1", "1", "1"]
    assert [child.tag for case in suite for child in case] == ["failure", "system-out", "error", "skipped"]
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert len((failure.text or "").splitlines()) >= 2
