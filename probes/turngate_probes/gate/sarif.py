"""The report of a gate as SARIF 2.1.0: each reason against the newer release, and what it costs besides."""

from turngate.plain import bounded, visible
from turngate_probes.gate.judge import Reason
from turngate_probes.gate.view import GateReport, costs, excuse, new_of, ruling_of, where
from turngate_probes.report.sarif import LONGEST_MESSAGE, notification, result, result_of, written


def sarif(report: GateReport) -> str:
    """Render the report; what the baseline excuses is told beside the results."""
    new, ruling = new_of(report), ruling_of(report)
    results = [result(new, rule_of(each), each.about, each.text, where(each, new)) for each in ruling.reasons]
    results += [result_of(new, clause) for clause in costs(report, ruling)]
    notes = [notification(visible(bounded(excuse(*each), LONGEST_MESSAGE)), "note") for each in ruling.excused]
    return written(report["probe"], "gate", results, notes)


def rule_of(reason: Reason) -> str:
    """Name the rule: the clause that fails, or what kind of reason it is."""
    return reason.about if reason.kind == "clause" else f"gate.{reason.kind}"
