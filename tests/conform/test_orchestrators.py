"""Two correct orchestrators keep every rule, and each wrong one breaks its own."""

import sys
from pathlib import Path

import pytest

from tests.conform.orchestrators.catalogue import CORRECT, Wrong, wrong
from turngate import load_contract
from turngate_probes.conform.catalogue import rules, scenarios
from turngate_probes.conform.report import Conformance, ConformReport, Result
from turngate_probes.conform.session import Session
from turngate_probes.harness.interrupt import Interrupt

pytestmark = pytest.mark.long
CODEX = "0.169.0"
# what every wrong orchestrator plays, besides the scenarios in which its mistake shows
COMMON = ("two-turns", "two-conversations", "fresh-session", "lost-session", "no-id", "text-imitates-records", "crash")


def conform(tmp_path: Path, command: tuple[str, ...], chosen: tuple[str, ...]) -> ConformReport:
    """Return the report on an orchestrator."""
    played = tuple(scenarios()[name] for name in dict.fromkeys(chosen))
    session = Session(command, (load_contract("codex", CODEX),), played, tmp_path / "runs", jobs=4)
    return session.run(Interrupt(), lambda _: None)


@pytest.mark.parametrize("program, file", [(sys.executable, CORRECT["python"]), ("node", CORRECT["node"])])
def test_a_correct_orchestrator_keeps_every_rule(tmp_path: Path, program: str, file: Path) -> None:
    """It passes all scenarios."""
    report = conform(tmp_path, (program, str(file)), tuple(scenarios()))
    assert [(row.scenario, row.breaches, row.detail) for row in report.results if row.result is not Result.PASS] == []
    assert (len(report.results), report.verdict, report.exit_code) == (len(scenarios()), Conformance.CONFORMS, 0)


@pytest.mark.parametrize("mistake", wrong(), ids=lambda mistake: mistake.id)
def test_a_wrong_orchestrator_breaks_its_rule(tmp_path: Path, mistake: Wrong) -> None:
    """It breaks that rule in its scenarios, and otherwise only what follows from its mistake."""
    file = tmp_path / f"{mistake.id}.py"
    file.write_text(mistake.source(), "utf-8")
    report = conform(tmp_path, (sys.executable, str(file)), (*mistake.scenarios, *COMMON))
    broken = {row.scenario: {breach.rule: breach.detail for breach in row.breaches} for row in report.results}
    for scenario in mistake.scenarios:
        assert mistake.breaks in broken[scenario], (scenario, broken[scenario])
    assert {rule for row in broken.values() for rule in row} - {mistake.breaks, *mistake.also} == set(), broken
    assert [row.detail for row in report.results if row.result is Result.UNANSWERED] == []


def test_every_rule_has_a_wrong_orchestrator() -> None:
    """None of the rules is untested."""
    assert {mistake.breaks for mistake in wrong()} == set(rules())
