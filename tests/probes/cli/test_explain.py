"""The command that explains clauses."""

import json
import re

from click.testing import CliRunner
from msgspec.structs import fields

from tests.tables import each
from turngate.contract import load
from turngate.contract.engine_contract import EngineContract
from turngate.errors import NotCoveredError, NoVersionError
from turngate_probes.clauses import CHECKS
from turngate_probes.cli.explain import explain
from turngate_probes.conform.catalogue import ConformRule, rules, scenarios
from turngate_probes.report.recipe import recipe
from turngate_probes.report.sarif import GATE_RULES

SECTIONS = {field.encode_name for field in fields(EngineContract)}


def explained(*args: str) -> str:
    """Return what the command prints."""
    ended = CliRunner().invoke(explain, args, standalone_mode=False)
    assert ended.exception is None
    assert ended.return_value == 0
    return ended.output


@each("clause", load.catalogue())
def test_every_clause_says_how_it_is_tested_and_what_to_do(clause: str) -> None:
    """Each clause has a test, advice for an orchestrator, and advice for a contract that names its sections."""
    found = load.catalogue()[clause]
    assert CHECKS[clause].run.__doc__
    assert found.orchestrator
    named = re.findall(r"`([a-z_]+)(?:\.[a-z_.]+)?`", found.contract)
    assert set(named) - SECTIONS - set(found.symptoms) <= {"match", "record", "stdout_file"}


def test_an_explanation_names_promise_remedy_and_known_deviations() -> None:
    """The text has all parts, and the releases whose contracts declare a deviation."""
    text = " ".join(explained("resume.dead-handle").split())
    found = load.catalogue()["resume.dead-handle"]
    assert all(part in text for part in (found.sentence, found.why, found.orchestrator, *found.symptoms.values()))
    assert "codex before 0.117.0: fresh-session: check that the session's file exists" in text
    assert "No deviation can excuse this clause" in explained("handle.present")


def test_json_has_the_same() -> None:
    """`--json` prints the clause with how it is tested and its deviations; without an id, all of them."""
    one = json.loads(explained("resume.dead-handle", "--json"))
    assert one["tested"].startswith("Resuming with a well-formed id")
    assert one["deviations"][0]["releases"] == "codex before 0.117.0"
    every = [*load.catalogue(), *(f"gate.{kind}" for kind in GATE_RULES), *rules()]
    assert [each["id"] for each in json.loads(explained("--json"))] == every
    assert [line.split("  ", 1)[0] for line in explained().splitlines()] == every


@each("rule", rules().values())
def test_the_rules_for_orchestrators_are_explained(rule: ConformRule) -> None:
    """Each has its promise, the reason, and the scenarios that test it, if it has its own."""
    text = " ".join(explained(rule.id).split())
    assert all(part in text for part in (rule.sentence, rule.why, rule.severity))
    found = json.loads(explained(rule.id, "--json"))
    assert all(scenarios()[name].rule == rule.id for name in found["scenarios"])
    if found["scenarios"]:
        assert f"turngate conform --scenario {found['scenarios'][0]} --show" in text


def test_an_engine_is_explained_by_its_recipe() -> None:
    """The name of an engine, with a version or without, prints how to run it; JSON has the same parts."""
    text = explained("gemini@0.37.2")
    assert text == recipe("gemini", "0.37.2").markdown
    assert explained("gemini") == recipe("gemini").markdown != text
    found = json.loads(explained("gemini@0.37.2", "--json"))
    assert (found["engine"], found["version"]) == ("gemini", "0.37.2")
    assert all(part["title"] in text and part["text"] in text for part in found["sections"])


@each("mistyped, error", [("gemini@newest", NoVersionError), ("copilot@0.0.1", NotCoveredError)])
def test_a_release_without_claims_has_no_recipe(mistyped: str, error: type[Exception]) -> None:
    """What is no version, and a release that the contract doesn't cover, are errors."""
    assert isinstance(CliRunner().invoke(explain, [mistyped], standalone_mode=False).exception, error)


def test_the_other_ids_of_a_gate_are_explained() -> None:
    """A baseline and SARIF use ids that are no clauses."""
    assert GATE_RULES["baseline"] in explained("gate.baseline")
    assert "No gate fails because of it" in explained("gate.claim")
    assert explained("auto_flags: --yolo") == explained("auto_flags") == explained("gate.claim")
    assert "only with --fail-on" in explained("gate.tool")


@each(
    "mistyped, near",
    [
        ("prompt.not-a-flg", "prompt.not-a-flag"),
        ("toolcall", "interactive.tool-call"),
        ("dead-handle", "resume.dead-handle"),
        ("orchestrator.complete", "orchestrator.completes"),
        ("gemin", "gemini"),
        ("zzz", "`turngate explain` lists all of them"),
    ],
)
def test_an_unknown_id_suggests_the_nearest(mistyped: str, near: str) -> None:
    """A mistyped id, or a part of one, is an error with near ones."""
    ended = CliRunner().invoke(explain, [mistyped], standalone_mode=False)
    assert near in getattr(ended.exception, "hint", "")
