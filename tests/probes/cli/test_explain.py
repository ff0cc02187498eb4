"""The command that explains clauses."""

import json
import re

import pytest
from click.testing import CliRunner
from msgspec.structs import fields

from turngate.contract import load
from turngate.contract.engine_contract import EngineContract
from turngate_probes.clauses import CHECKS
from turngate_probes.cli.explain import explain

SECTIONS = {field.encode_name for field in fields(EngineContract)}


def explained(*args: str) -> str:
    """Return what the command prints."""
    ended = CliRunner().invoke(explain, args, standalone_mode=False)
    assert ended.exception is None
    assert ended.return_value == 0
    return ended.output


@pytest.mark.parametrize("clause", load.catalogue())
def test_every_clause_says_how_it_is_tested_and_what_to_do(clause: str) -> None:
    """Each clause has a test, advice for an orchestrator, and advice for a contract that names its sections."""
    found = load.catalogue()[clause]
    assert CHECKS[clause].run.__doc__
    assert found.orchestrator
    named = re.findall(r"`([a-z_]+)(?:\.[a-z_.]+)?`", found.contract)
    assert set(named) - SECTIONS - set(found.symptoms) <= {"match", "record"}


def test_an_explanation_names_promise_remedy_and_known_deviations() -> None:
    """The text has all parts, and the releases whose contracts declare a deviation."""
    text = " ".join(explained("resume.dead-handle").split())
    found = load.catalogue()["resume.dead-handle"]
    assert all(part in text for part in (found.sentence, found.why, found.orchestrator, *found.symptoms.values()))
    assert "codex before 0.117.0: fresh-session: check that the session's file exists" in text
    assert "No deviation can excuse this clause" in explained("handle.present")


def test_json_has_the_same() -> None:
    """`--json` prints the clause with how it is tested and its deviations; without a clause, all of them."""
    one = json.loads(explained("resume.dead-handle", "--json"))
    assert one["tested"].startswith("Resuming with a well-formed id")
    assert one["deviations"][0]["releases"] == "codex before 0.117.0"
    assert [each["id"] for each in json.loads(explained("--json"))] == list(load.catalogue())
    assert [line.split()[0] for line in explained().splitlines()] == list(load.catalogue())


def test_an_unknown_clause_suggests_the_nearest() -> None:
    """A mistyped id is an error with the nearest one."""
    ended = CliRunner().invoke(explain, ["prompt.not-a-flg"], standalone_mode=False)
    assert getattr(ended.exception, "hint", None) == "did you mean prompt.not-a-flag?"
