"""SARIF: held by hand against what the schema of 2.1.0 and GitHub's code scanning ask for."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.probes.report import samples
from turngate.contract import load
from turngate_probes.report import sarif as subject
from turngate_probes.report.sarif import sarif
from turngate_probes.report.structs import ProbeReport

ROOT = Path(__file__).parents[3]


def run_of(report: ProbeReport) -> Any:
    """The only run of the log."""
    log = json.loads(sarif(report))
    assert set(log) == {"$schema", "version", "runs"}
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    assert set(run) == {"tool", "automationDetails", "invocations", "results"}
    return run


@pytest.mark.parametrize("make", [samples.mixed, samples.hostile, samples.of])
def test_the_log_has_what_the_format_requires(make: Callable[[], ProbeReport]) -> None:
    """Each result names a rule that there is, has a message, a level, and a place by a relative path."""
    run = run_of(make())
    rules = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert len(rules) == len(run["tool"]["driver"]["rules"])
    for result in run["results"]:
        assert result["ruleId"] in rules
        assert result["message"]["text"]
        assert result["level"] in ("error", "warning", "note")
        for location in result["locations"]:
            place = location["physicalLocation"]
            assert not place["artifactLocation"]["uri"].startswith("/")
            assert place["region"]["startLine"] >= 1
    for note in run["invocations"][0]["toolExecutionNotifications"]:
        assert note["message"]["text"]


def test_only_what_failed_is_a_result() -> None:
    """The severest come first; what deviates or could not be asked is none."""
    results = run_of(samples.mixed())["results"]
    assert [(result["ruleId"], result["level"]) for result in results] == [
        ("resume.accepted", "error"),
        ("help.surface", "warning"),
    ]
    assert {result["properties"]["source"] for result in results} == {"path"}


def test_a_result_stands_at_the_claim_of_the_contract() -> None:
    """The line is that of a claim which names the clause as its evidence."""
    place = run_of(samples.mixed())["results"][0]["locations"][0]["physicalLocation"]
    lines = (ROOT / place["artifactLocation"]["uri"]).read_text().splitlines()
    document = load.contract("codex").document
    line = place["region"]["startLine"]
    (claim,) = (claim for claim in document.claims() if document.marks[claim.path][0] == line)
    assert {"clause": "resume.accepted"} in claim.evidence
    assert lines[line - 1].startswith("  start: ")


def test_the_same_failure_has_the_same_fingerprint_and_another_has_another() -> None:
    """An alert lives on from run to run, for each release and clause."""
    first, second = (run_of(samples.mixed())["results"] for _ in range(2))
    prints = [result["partialFingerprints"]["primaryLocationLineHash"] for result in first]
    assert prints == [result["partialFingerprints"]["primaryLocationLineHash"] for result in second]
    assert len({*prints}) == len(prints)
    releases = run_of(samples.many(2))["results"]
    assert releases[0]["partialFingerprints"] != releases[1]["partialFingerprints"]


def test_a_release_that_was_not_asked_is_told_beside_the_results() -> None:
    """It says nothing of a clause, and must not be lost."""
    note, stale = run_of(samples.mixed())["invocations"][0]["toolExecutionNotifications"]
    assert stale["level"] == "note"
    assert note == {"level": "error", "message": {"text": "opencode@1.0.0 could not be asked: npm is absent"}}


def test_what_is_too_much_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """GitHub shows so many results and no more."""
    monkeypatch.setattr(subject, "MOST_RESULTS", 3)
    run = run_of(samples.many(5))
    assert len(run["results"]) == 3
    assert run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"] == "2 more failures are left out"
