"""The report of a gate as one HTML page: outcome, what must change, what differs, and the matrix of both releases."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import structs

from turngate.sanitize import visible
from turngate_probes.gate.presentation import GateReport, excuse, ruling_of
from turngate_probes.gate.ruling import Ruling
from turngate_probes.gate.text import OUTCOMES, apart
from turngate_probes.report.page import STATES, Head, rendered
from turngate_probes.report.structs import ProbeReport

MOST = 500
SIGNS = {"breaking": "fail", "degraded": "deviates", "additive": "pass", "none": "unsupported"}
MEANING = {
    "pass": "nothing speaks against it",
    "fail": "something speaks against it",
    "unanswered": "not everything could be asked",
    "crashed": "turngate itself failed; it says nothing about the engine",
    "interrupted": "interrupted; this is what was known by then",
}
EXCUSED = {"excused": "it did not, and the baseline excuses it"}


def page(report: GateReport) -> str:
    """Render the page."""
    ruling, (old, new) = ruling_of(report), (visible(report[side]["release"]) for side in ("old", "new"))
    head = Head(
        "upgrade gate",
        f"{new} {OUTCOMES[report['outcome']]} {old}",
        f"Exit code {report['exit_code']}: {MEANING[report['outcome']]}.",
        [(SIGNS[impact], count, impact) for impact, count in report["counts"].items()],
        STATES | EXCUSED,
        _added(report, ruling),
    )
    return rendered(_shown(report["probe"], ruling), head)


def _added(report: GateReport, ruling: Ruling) -> dict[str, Any]:
    listed, fallen = apart(each for each in report["differences"] if each["impact"] != "none")
    return {
        "reasons": report["reasons"],
        "must": report["must"],
        "excused": [excuse(*each) for each in ruling.excused],
        "differences": [{**each, "sign": SIGNS[each["impact"]]} for each in listed[:MOST]],
        "rest": " ".join(_rest(report, listed, fallen)),
    }


def _rest(report: GateReport, listed: list[Mapping[str, Any]], fallen: list[str]) -> Iterator[str]:
    if not report["differences"]:
        yield "Nothing differs." if report["outcome"] in ("pass", "fail") else "Nothing was compared."
    if len(listed) > MOST:
        yield f"{len(listed) - MOST} more are left out here."
    if fallen:
        yield f"Not to be asked any more, since what they need fell: {', '.join(fallen)}."
    if unweighed := report["counts"]["none"]:
        yield f"{unweighed} of no consequence are in the JSON report alone."


def _shown(probe: ProbeReport, ruling: Ruling) -> ProbeReport:
    """Mark what is excused in the newer release."""
    whys = {reason.about: excuse(reason, entry) for reason, entry in ruling.excused}
    old, new = probe.releases
    clauses = tuple(
        structs.replace(clause, result="excused", detail=whys[clause.id]) if clause.id in whys else clause
        for clause in new.clauses
    )
    return structs.replace(probe, releases=(old, structs.replace(new, clauses=clauses)))
