"""Releases as reports tell of them, for what compares and judges them."""

from typing import Any

from msgspec import structs

from tests.probes.report import samples
from tests.probes.turns import CODEX
from turngate.contract.clauses import Reason, Result
from turngate.contract.load import catalogue
from turngate.contract.verdict import ClauseResult
from turngate_probes.gate.survey import Side, Survey
from turngate_probes.report.structs import ReleaseReport

EMPTY = Survey({}, {}, {})


def clause(clause_id: str, result: str = "pass", detail: str = "as expected", **more: Any) -> ClauseResult:
    """One clause of a release."""
    known = catalogue()[clause_id]
    about = ClauseResult.of(known, Result(result), detail, needs=more.get("needs", ()), stale=more.get("stale", False))
    return structs.replace(about, reason=Reason(more["reason"])) if "reason" in more else about


def release(name: str, *clauses: ClauseResult, **more: Any) -> ReleaseReport:
    """A release with every hermetic clause passed, save those given."""
    given = {each.id: each for each in clauses}
    usually = [clause(each.id) for each in catalogue().at_level("static", "hermetic")]
    listed = [given.pop(each.id, each) for each in usually]
    usual = samples.of(samples.whole(release=name, source="npm")).releases[0]
    return structs.replace(usual, clauses=(*listed, *given.values()), **{"tool_access": None} | more)


def old(*clauses: ClauseResult, survey: Survey = EMPTY, **more: Any) -> Side:
    """The older release."""
    return Side(release("codex@0.160.0", *clauses, **more), survey)


def new(*clauses: ClauseResult, survey: Survey = EMPTY, **more: Any) -> Side:
    """The newer release."""
    return Side(release("codex@0.170.0", *clauses, **more), survey)


CONTRACT = CODEX
