"""Every report format of a gate shows the same outcome and reasons."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from msgspec.structs import replace

from tests.probes.gate import views
from tests.probes.report import journals as j
from tests.tables import each
from turngate import cli
from turngate.errors import UsageError
from turngate_probes.gate.decision import load_gate
from turngate_probes.report.github import annotations
from turngate_probes.report.headline import gate_headline
from turngate_probes.report.junit import junit
from turngate_probes.report.lines import Detail
from turngate_probes.report.markdown import markdown
from turngate_probes.report.page import page
from turngate_probes.report.publish import json_text
from turngate_probes.report.release_view import ReleaseView, view
from turngate_probes.report.reports import Difference, GateReport, Impact
from turngate_probes.report.sarif import sarif
from turngate_probes.report.text import report_lines
from turngate_probes.report.view import View
from turngate_probes.report.wording import OWN_PIN

Make = Callable[[], GateReport]
EVERY = [views.green_by_baseline, views.green_with_changes, views.red_by_a_tool, views.red_by_all, views.unanswered]


def as_text(shown: View) -> str:
    """Return the lines that are printed."""
    return "\n".join(str(line) for _, line in report_lines(shown))


def annotated(report: GateReport) -> str:
    """Return the annotations as text."""
    return "\n".join(annotations(view(report)))


def run_of(report: GateReport) -> Any:
    """Return the only run of the SARIF log."""
    (run,) = json.loads(sarif(view(report)))["runs"]
    return run


@each("make", EVERY)
def test_every_reason_is_red_in_every_format_and_nothing_else_is(make: Make) -> None:
    """Each format has exactly one failure or error per reason."""
    report = make()
    count = len(report.reasons)
    assert (report.exit_code != 0) is (count > 0)
    root = ET.fromstring(junit(view(report)))
    assert int(root.get("failures", "")) + int(root.get("errors", "")) == count
    assert [suite.get("name") for suite in root] == [views.NEW], "the older release is there to be compared with"
    wrong = [result for result in run_of(report)["results"] if result["level"] == "error"]
    assert [result["message"]["text"] for result in wrong] == [f"{views.NEW}: {reason}" for reason in report.reasons]
    assert tuple(remark.text for remark in view(report).remarks if remark.level == "error") == report.reasons


def test_what_is_gone_but_not_used_is_told_before_what_is_new() -> None:
    """An orchestrator of one's own may use more than the contract does."""

    def listing(release: str, *commands: str) -> Any:
        output = {"bytes": 0, "excerpt": ""}
        page = {"argv": ["codex", "--help"], "exit_code": 0, "ended": "exit", "cpu_seconds": 0.1}
        listed = {"command": {f"codex {command}": "" for command in commands}}
        place = {"release": release, "case": "listings", "step": "1", "stdout": output, "stderr": output}
        return j._event("page", page | place | {"listed": listed})

    old, new = views.release(views.OLD), views.release(views.NEW)
    old[1:1], new[1:1] = [listing(views.OLD, "exec", "mcp-server")], [listing(views.NEW, "exec", "queue")]
    text = as_text(view(views.of(old, new)))
    gone, added = (text.index(line) for line in ("command codex mcp-server: gone", "command codex queue: new"))
    assert gone < text.index("additive") < added


def test_what_the_baseline_excuses_is_skipped_with_its_reason() -> None:
    """In a green gate, excused failures are skipped with their reason, and degraded ones are warnings."""
    report = views.green_by_baseline()
    cases = {case.get("name"): case for case in ET.fromstring(junit(view(report))).iter("testcase")}
    skipped = cases[views.DEAD].find("skipped")
    assert skipped is not None
    assert skipped.get("message") == "excused by the baseline (mended upstream): resume.dead-handle fails: exit code 0"
    assert cases["stdin.open"].findtext("system-out") == "degraded: it hangs"
    run = run_of(report)
    assert [(each["ruleId"], each["level"]) for each in run["results"] if each["level"] != "note"] == [
        ("stdin.open", "warning")
    ]
    (note, changes) = run["invocations"][0]["toolExecutionNotifications"]
    assert (note["level"], "mended upstream" in note["message"]["text"]) == ("note", True)
    assert "green, changes required: 2 changes to your orchestrator" in changes["message"]["text"]
    assert [remark.level for remark in view(report).remarks] == ["warning", "note", "note"]
    assert "Excused by the baseline" in markdown(view(report))


def test_a_reason_that_is_no_clause_has_a_case_and_a_rule_of_its_own() -> None:
    """An unasked tool call and an obsolete baseline entry have their own test case and SARIF rule."""
    cases = {case.get("name"): case for case in ET.fromstring(junit(view(views.red_by_a_tool()))).iter("testcase")}
    failure = cases["call interactive"].find("failure")
    assert failure is not None
    assert failure.get("type") == "call"
    assert run_of(views.red_by_a_tool())["results"][0]["ruleId"] == "gate.call"
    run = run_of(views.red_by_all())
    assert {each["ruleId"] for each in run["results"] if each["level"] == "error"} == {views.DEAD, "gate.baseline"}
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} >= {"gate.baseline"}


def test_every_format_lists_the_changes_that_an_orchestrator_needs() -> None:
    """JUnit has a case that passes with a note for each, SARIF a note with a fingerprint of its own, and -q a line."""
    shown = view(views.green_by_baseline())
    new = {action.title: action.text for action in shown.actions if action.new}
    assert len(new) == 2
    cases = {case.get("name"): case for case in ET.fromstring(junit(shown)).iter("testcase")}
    assert {title: cases[title].findtext("system-out") for title in new} == new
    run = run_of(views.green_by_baseline())
    notes = [each for each in run["results"] if each["ruleId"] == "gate.change"]
    texts = {each["message"]["text"] for each in notes if each["level"] == "note"}
    assert texts == {f"{views.NEW}: {text}" for text in new.values()}
    assert len({each["partialFingerprints"]["primaryLocationLineHash"] for each in notes}) == 2
    (rule,) = (each for each in run["tool"]["driver"]["rules"] if each["id"] == "gate.change")
    assert (rule["defaultConfiguration"]["level"], "gate fails" in rule["help"]["text"]) == ("note", False)
    quiet = "\n".join(str(line) for _, line in report_lines(shown, detail=Detail.QUIET))
    assert all(f"new: {action.about}: {action.text}" in quiet for action in shown.actions if action.new)


def test_a_clause_that_fails_has_its_evidence() -> None:
    """A failing clause has its evidence, as in the report of a probe."""
    cases = {case.get("name"): case for case in ET.fromstring(junit(view(views.red_by_all()))).iter("testcase")}
    assert "$ codex exec --json" in (cases[views.DEAD].findtext("failure") or "")


def _plain(html: str) -> str:
    """Return a page without the marks of what stays whole at the end of a line."""
    return re.sub(r'<span class="unbroken">(.*?)</span>', r"\1", html)


@each("make", EVERY)
def test_the_page_says_what_the_gate_does(make: Make) -> None:
    """The page has the gate's headline, exit code, reasons and required changes, not those of the probes."""
    report = make()
    shown = _plain(page(view(report)))
    assert f"<h1>{view(report).headline}</h1>" in shown
    assert f"Exit code {report.exit_code}: " in shown
    assert "releases are broken" not in shown
    assert shown.count("What your orchestrator must do") == 1
    for reason in report.reasons:
        assert reason.partition(" (")[0] in shown


def test_the_page_has_the_table_of_differences() -> None:
    """The page has the table of differences, and the matrix marks excused clauses."""
    shown = page(view(views.red_by_a_tool()))
    assert '<td data-label="before">denied</td><td data-label="after">executed</td>' in shown
    assert 'data-state="excused"' in page(view(views.green_by_baseline()))


def test_whether_changes_are_required_is_known_of_a_green_gate_alone() -> None:
    """`changes_required` is true or false only for a green gate, and otherwise null."""
    same = views.of(views.release(views.NEW), views.release("codex@0.170.0"))
    assert (same.outcome, same.changes_required, same.actions) == ("pass", False, ())
    assert (views.green_with_changes().outcome, views.green_with_changes().changes_required) == ("pass", True)
    for other in (views.red_by_all(), views.unanswered()):
        assert other.changes_required is None
    assert json.loads(json_text(same))["changes_required"] is False


def test_a_release_that_is_compared_with_itself_gets_its_verdict() -> None:
    """The headline of the report says that both releases are the same."""
    report = views.of(views.release(views.OLD), views.release(views.NEW))
    assert gate_headline(report).endswith(" from codex@0.160.0 (clause set 2026-12)")
    same = gate_headline(replace(report, old=report.new))
    assert same.endswith(" from codex@0.169.0, which is the same release (clause set 2026-12)")


@each("render", [junit, sarif, markdown, page, as_text, lambda shown: "\n".join(annotations(shown))])
def test_every_format_says_that_a_green_upgrade_requires_changes(render: Callable[[ReleaseView], str]) -> None:
    """Every format says so if a green upgrade requires changes, and only then."""
    assert "green, changes required" in render(view(views.green_with_changes()))
    assert "changes required" not in render(view(views.of(views.release(views.NEW), views.release("codex@0.170.0"))))


@pytest.mark.parametrize("render", [markdown, page, as_text])
def test_what_an_orchestrator_must_do_is_one_section_near_the_top(render: Callable[[ReleaseView], str]) -> None:
    """Each format has one section of required changes, in the report's order: new ones first, marked as new."""
    report = views.green_with_changes()
    text = re.sub(r"</?\w[^>]*>|\*\*|&#\d+;", " ", _plain(render(view(report))))
    assert text.count("What your orchestrator must do") == 1
    section = text[text.index("What your orchestrator must do") :]
    actions = [action.text.partition(",")[0] for action in report.actions]
    assert [action.new for action in report.actions] == sorted((a.new for a in report.actions), reverse=True)
    places = [section.index(action) for action in actions]
    assert places == sorted(places)
    assert "new" in section[: places[0]]


def test_a_tool_that_runs_unasked_breaks_where_the_older_release_can_not_be_asked() -> None:
    """A known break gives exit code 1, even if the older release could not be tested."""
    lost = [j.planned(views.OLD), j.failed(views.OLD)]
    unasked = views.fails("interactive.tool-call", "it took effect")
    assert views.of(lost, views.release(views.NEW, unasked, verdict="broken", acted=True)).exit_code == 1


@pytest.mark.parametrize("make", EVERY)
def test_a_report_is_rendered_again_as_the_gate_did(
    make: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`turngate report gate.json` writes the same files and returns the same exit code as the gate."""
    source, xml = tmp_path / "gate.json", tmp_path / "gate.xml"
    report = make()
    source.write_text(json_text(report))
    files = ("--report", str(xml), "--report", str(tmp_path / "x.html"))
    assert cli.run(["report", str(source), *files]) == report.exit_code
    assert xml.read_text() == junit(view(report))
    assert (tmp_path / "x.html").read_text() == page(view(report))
    assert f"exit code {report.exit_code}" in capsys.readouterr().out


def test_hostile_text_stays_text_in_every_format(tmp_path: Path) -> None:
    """Hostile text never becomes markup, a command or a control character, and the report can be loaded again."""
    report = views.hostile()
    assert len(report.reasons) == 3
    markup = (junit(view(report)), page(view(report)), markdown(view(report)))
    assert not any("<img" in text for text in markup)
    for text in (*markup, sarif(view(report)), *annotations(view(report))):
        assert not {"\x1b", "\x00", "\ud800", "\u202e", "\r"} & set(text)
    assert "window.hacked" in page(view(report))
    assert "<script>window" not in page(view(report))
    assert all(len(line.splitlines()) == 1 for line in annotations(view(report)))
    (tmp_path / "gate.json").write_text(json_text(report))
    assert load_gate(tmp_path / "gate.json") == report


def test_a_report_of_the_earlier_format_is_read(tmp_path: Path) -> None:
    """The format 2 spells one key with a hyphen."""
    report = views.red_by_a_tool()
    document = json.loads(json_text(report))
    earlier = {"schema": "turngate.gate-report/2", "changes-required": document.pop("changes_required")}
    (tmp_path / "gate.json").write_text(json.dumps(document | earlier))
    assert load_gate(tmp_path / "gate.json") == report


@pytest.mark.parametrize(
    "change, why",
    [
        (lambda r: r.update(outcome="pass"), "outcome"),
        (lambda r: r.update(exit_code=0), "exit_code"),
        (lambda r: r.update(reasons=["all is well"]), "data: reasons"),
        (lambda r: r.update({"changes_required": False}), "changes_required"),
        (lambda r: r["actions"].clear(), "actions"),
        (lambda r: r.update(differences=[]), "outcome"),
        (lambda r: r["new"].update(release="codex@9.9.9"), "data: new"),
        (lambda r: r["probe"].update(exit_code=1), "its exit code is 1"),
        (lambda r: r.update(surprise=1), "surprise"),
        (lambda r: r["probe"].update(releases=[{}, {}]), "required"),
    ],
)
def test_what_a_gate_would_not_say_is_refused(tmp_path: Path, change: Callable[[Any], Any], why: str) -> None:
    """A report that was edited so that it contradicts itself is rejected."""
    report = json.loads(json_text(views.red_by_a_tool()))
    change(report)
    (tmp_path / "gate.json").write_text(json.dumps(report))
    with pytest.raises(UsageError, match="is not a valid report: ") as refused:
        load_gate(tmp_path / "gate.json")
    assert why in refused.value.what


def test_what_is_no_report_of_a_gate_is_none(tmp_path: Path) -> None:
    """Loading a file that isn't a gate report returns None."""
    (tmp_path / "other.json").write_text("[]")
    assert load_gate(tmp_path / "other.json") is None
    assert load_gate(tmp_path / "journal.ndjson") is None


def test_the_pin_of_turngate_is_not_called_yours() -> None:
    """Each format says whose release the older one is, even in a line."""
    old, new = views.release(views.OLD), views.release(views.NEW)
    old[0] = replace(old[0], note=f"installed from npm; {OWN_PIN}")
    shown = view(views.of(old, new))
    assert f"upgrade from {views.OLD}, turngate's own pin and perhaps not yours" in shown.headline
    for text in (markdown(shown), "\n".join(str(line) for _, line in report_lines(shown, detail=Detail.QUIET))):
        assert "neither --from nor a setting nor a file in this folder names the release that you use" in text


def test_what_was_not_compared_has_no_differences_that_are_none() -> None:
    """After Ctrl-C, or without a release, nobody knows what differs."""
    failed = [j.planned(views.NEW), j.failed(views.NEW)]
    assert "differences: not compared" in as_text(view(views.of(views.release(views.OLD), failed)))
    report = replace(views.green_by_baseline(), differences=(), counts={})
    assert "differences: none" in as_text(view(report))


def test_of_a_list_only_the_words_that_differ_are_printed() -> None:
    """Both lists stand in the other formats."""
    row = Difference(
        "protocol", "item x: a", "required: a|b", "required: b|c", Impact.DEGRADED, "gone: a; new: c", None
    )
    assert "\nprotocol item x: a: gone: a; new: c\n" in as_text(view(replace(views.unanswered(), differences=(row,))))
