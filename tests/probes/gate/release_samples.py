"""Sample releases as they appear in reports, for tests of comparing and ruling."""

from typing import Any

import msgspec

from tests.probes.report import samples
from tests.probes.turns import CODEX
from turngate.contract.clauses import Reason, Result
from turngate.contract.load import catalogue
from turngate.contract.verdict import ClauseResult, decode_hook
from turngate.decoding import convert
from turngate_probes.gate.compare import ReleaseSurface, Side
from turngate_probes.report.reports import ReleaseReport

EMPTY = ReleaseSurface({}, {}, {})
CONTRACT = CODEX


def clause(
    clause_id: str, result: str = "pass", detail: str = "as expected", *, reason: str | None = None, **more: Any
) -> ClauseResult:
    """Return one clause result of a release."""
    why = Reason(reason) if reason else None
    return ClauseResult.of(catalogue()[clause_id], Result(result), detail, reason=why, **more)


def release(name: str, *clauses: ClauseResult, **more: Any) -> ReleaseReport:
    """Return a release that passes every hermetic clause except those given; `more` are fields of its JSON."""
    given = {result.id: result for result in clauses}
    usually = [clause(declared.id) for declared in catalogue().at_level("static", "hermetic")]
    listed = [given.pop(result.id, result) for result in usually]
    (usual,) = samples.plain(samples.of(samples.whole(release=name, source="npm")))["releases"]
    usual |= {"clauses": msgspec.to_builtins([*listed, *given.values()])} | more
    return convert(usual, ReleaseReport, dec_hook=decode_hook)


def old(*clauses: ClauseResult, surface: ReleaseSurface = EMPTY, **more: Any) -> Side:
    """Return the older release."""
    return Side(release("codex@0.160.0", *clauses, **more), surface)


def new(*clauses: ClauseResult, surface: ReleaseSurface = EMPTY, **more: Any) -> Side:
    """Return the newer release."""
    return Side(release("codex@0.170.0", *clauses, **more), surface)
