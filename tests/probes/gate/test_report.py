"""What each format says of a gate: the same as its exit code, and why."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.probes.gate import views
from tests.probes.report import journals as j
from turngate import cli
from turngate.errors import EnvironmentFailed
from turngate_probes.gate import advice
from turngate_probes.gate.report import load_gate
from turngate_probes.report.gate_structs import GateReport
from turngate_probes.report.github import annotations
from turngate_probes.report.junit import junit
from turngate_probes.report.markdown import markdown
from turngate_probes.report.page import page
from turngate_probes.report.publish import json_text
from turngate_probes.report.sarif import sarif
from turngate_probes.report.view import view

Make = Callable[[], GateReport]
EVERY = [views.green_by_baseline, views.red_by_a_tool, views.red_by_all, views.unanswered]


def run_of(report: GateReport) -> Any:
    """The only run of the log."""
    (run,) = json.loads(sarif(report))["runs"]
    return run


@pytest.mark.parametrize("make", EVERY)
def test_every_reason_is_red_in_every_format_and_nothing_else_is(make: Make) -> None:
    """As many failures and errors, results of level error, and annotations, as there are reasons."""
    report = make()
    count = len(report.reasons)
    assert (report.exit_code != 0) is (count > 0)
    root = ET.fromstring(junit(report))
    assert int(root.get("failures", "")) + int(root.get("errors", "")) == count
    assert [suite.get("name") for suite in root] == [views.NEW], "the older release is there to be compared with"
    wrong = [result for result in run_of(report)["results"] if result["level"] == "error"]
    assert [result["message"]["text"] for result in wrong] == [f"{views.NEW}: {reason}" for reason in report.reasons]
    assert tuple(remark.text for remark in view(report).remarks if remark.level == "error") == report.reasons


def test_what_the_baseline_excuses_is_skipped_with_its_reason() -> None:
    """In a green gate nothing is red; what is degraded is reported, and fails nothing."""
    report = views.green_by_baseline()
    cases = {case.get("name"): case for case in ET.fromstring(junit(report)).iter("testcase")}
    skipped = cases[views.DEAD].find("skipped")
    assert skipped is not None
    assert skipped.get("message") == "excused by the baseline (mended upstream): resume.dead-handle fails: exit code 0"
    assert cases["stdin.open"].findtext("system-out") == "degraded: it hangs"
    run = run_of(report)
    assert [(result["ruleId"], result["level"]) for result in run["results"]] == [("stdin.open", "warning")]
    (note,) = run["invocations"][0]["toolExecutionNotifications"]
    assert (note["level"], "mended upstream" in note["message"]["text"]) == ("note", True)
    assert [remark.level for remark in view(report).remarks] == ["warning", "note"]
    assert "Excused by the baseline" in markdown(report)


def test_a_reason_that_is_no_clause_has_a_case_and_a_rule_of_its_own() -> None:
    """A tool that runs unasked, and an entry that is to be removed."""
    cases = {case.get("name"): case for case in ET.fromstring(junit(views.red_by_a_tool())).iter("testcase")}
    failure = cases["call interactive"].find("failure")
    assert failure is not None
    assert failure.get("type") == "breaking"
    assert run_of(views.red_by_a_tool())["results"][0]["ruleId"] == "gate.call"
    run = run_of(views.red_by_all())
    assert {result["ruleId"] for result in run["results"]} == {views.DEAD, "gate.baseline"}
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} >= {"gate.baseline"}


def test_a_clause_that_fails_has_its_evidence() -> None:
    """As in the report of a probe."""
    cases = {case.get("name"): case for case in ET.fromstring(junit(views.red_by_all())).iter("testcase")}
    assert "$ codex exec --json" in (cases[views.DEAD].findtext("failure") or "")


@pytest.mark.parametrize("make", EVERY)
def test_the_page_says_what_the_gate_does(make: Make) -> None:
    """Headline, exit code, reasons and the paragraph; never those of the probes."""
    report = make()
    shown = page(report)
    said = "may take" if report.outcome == "pass" else {"fail": "must not take"}.get(report.outcome, "could not")
    assert f"<h1>{views.NEW} {said}" in shown
    assert f"Exit code {report.exit_code}: " in shown
    assert "releases are broken" not in shown
    assert report.must.partition(" (")[0] in shown
    for reason in report.reasons:
        assert reason.partition(" (")[0] in shown


def test_the_page_has_the_table_of_differences() -> None:
    """With what the baseline excuses marked in the matrix."""
    shown = page(views.red_by_a_tool())
    assert "<td>denied</td><td>executed</td>" in shown
    assert 'data-state="excused"' in page(views.green_by_baseline())


def test_an_open_question_leaves_the_advice_open() -> None:
    """That nothing has to change is said only of what was compared."""
    assert views.unanswered().must == advice.UNKNOWN
    stopped = views.of(views.release(views.OLD), views.release(views.NEW), interrupted=True)
    assert stopped.must == advice.UNKNOWN
    assert views.of(views.release(views.NEW), views.release("codex@0.170.0")).must == advice.NOTHING


def test_a_tool_that_runs_unasked_breaks_where_the_older_release_can_not_be_asked() -> None:
    """What is known to break goes first."""
    lost = [j.planned(views.OLD), j.failed(views.OLD)]
    assert views.of(lost, views.release(views.NEW, acted=True)).exit_code == 1


@pytest.mark.parametrize("make", EVERY)
def test_a_report_is_rendered_again_as_the_gate_did(
    make: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`turngate report gate.json` writes the same files, prints the same text, and ends with the same code."""
    source, xml = tmp_path / "gate.json", tmp_path / "gate.xml"
    report = make()
    source.write_text(json_text(report))
    files = ("--report", str(xml), "--report", str(tmp_path / "x.html"))
    assert cli.run(["report", str(source), *files]) == report.exit_code
    assert xml.read_text() == junit(report)
    assert (tmp_path / "x.html").read_text() == page(report)
    assert f"exit code {report.exit_code}" in capsys.readouterr().out


def test_hostile_text_stays_text_in_every_format(tmp_path: Path) -> None:
    """Nothing of it is markup, a command or a control character; a report that holds it is read all the same."""
    report = views.hostile()
    assert len(report.reasons) == 3
    markup = (junit(report), page(report), markdown(report))
    assert not any("<img" in text for text in markup)
    for text in (*markup, sarif(report), *annotations(report)):
        assert not {"\x1b", "\x00", "\ud800", "\u202e", "\r"} & set(text)
    assert "window.hacked" in page(report)
    assert "<script>window" not in page(report)
    assert all(len(line.splitlines()) == 1 for line in annotations(report))
    (tmp_path / "gate.json").write_text(json_text(report))
    assert load_gate(tmp_path / "gate.json") == report


@pytest.mark.parametrize("change, why", [
    (lambda r: r.update(outcome="pass"), "outcome"),
    (lambda r: r.update(exit_code=0), "exit_code"),
    (lambda r: r.update(reasons=["all is well"]), "otherwise: reasons"),
    (lambda r: r.update(differences=[]), "outcome"),
    (lambda r: r["new"].update(release="codex@9.9.9"), "otherwise: new"),
    (lambda r: r["probe"].update(exit_code=1), "its exit code is 1"),
    (lambda r: r.update(surprise=1), "surprise"),
    (lambda r: r["probe"].update(releases=[{}, {}]), "required"),
])  # fmt: skip
def test_what_a_gate_would_not_say_is_refused(tmp_path: Path, change: Callable[[Any], Any], why: str) -> None:
    """A report is held against both schemas, and ruled anew."""
    report = json.loads(json_text(views.red_by_a_tool()))
    change(report)
    (tmp_path / "gate.json").write_text(json.dumps(report))
    with pytest.raises(EnvironmentFailed, match="is no report: ") as refused:
        load_gate(tmp_path / "gate.json")
    assert why in refused.value.what


def test_what_is_no_report_of_a_gate_is_none(tmp_path: Path) -> None:
    """Whatever else lies there is left to others."""
    (tmp_path / "other.json").write_text("[]")
    assert load_gate(tmp_path / "other.json") is None
    assert load_gate(tmp_path / "journal.ndjson") is None
