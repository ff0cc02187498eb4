"""Releases as reports tell of them, for what compares and judges them."""

from typing import Any

from tests.probes.turns import CODEX
from turngate.contract.load import catalogue
from turngate_probes.gate.survey import Side, Survey

EMPTY = Survey({}, {}, {})


def clause(clause_id: str, result: str = "pass", detail: str = "as expected", **more: Any) -> dict[str, Any]:
    """One clause of a release."""
    known = catalogue()[clause_id]
    usual = {"id": clause_id, "level": known.level, "severity": known.severity.value, "result": result}
    return usual | {"detail": detail, "stale": False, "evidence": [], "needs": [], "reason": None} | more


def release(name: str, *clauses: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A release with every hermetic clause passed, save those given."""
    given = {each["id"]: each for each in clauses}
    usually = [clause(each.id) for each in catalogue().at_level("static", "hermetic")]
    listed = [given.pop(each["id"], each) for each in usually]
    engine, _, version = name.partition("@")
    usual = {"release": name, "engine": engine, "version": version, "verdict": "compatible", "failed": None}
    return usual | {"source": "npm", "clauses": [*listed, *given.values()]} | more


def old(*clauses: dict[str, Any], survey: Survey = EMPTY, **more: Any) -> Side:
    """The older release."""
    return Side(release("codex@0.160.0", *clauses, **more), survey)


def new(*clauses: dict[str, Any], survey: Survey = EMPTY, **more: Any) -> Side:
    """The newer release."""
    return Side(release("codex@0.170.0", *clauses, **more), survey)


CONTRACT = CODEX
