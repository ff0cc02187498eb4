"""What GitHub shows of a gate: Markdown, and annotations."""

from collections.abc import Iterator, Mapping
from typing import Any

from turngate_probes.gate.presentation import GateReport, costs, excuse, new_of, ruling_of, where
from turngate_probes.gate.text import OUTCOMES, apart
from turngate_probes.report.github import KINDS, Told, titled
from turngate_probes.report.markdown import escaped, prices
from turngate_probes.report.source_locations import place_of
from turngate_probes.report.wording import name_of

SIGNS = {"pass": "✅", "fail": "❌", "unanswered": "❔", "crashed": "💥", "interrupted": "❔"}
MARKS = {"breaking": "❌", "degraded": "🟡", "additive": "🟢", "none": "⚪"}
MOST = 200


def markdown(report: Mapping[str, Any]) -> str:
    """Render the report."""
    old, new = escaped(report["old"]["release"]), escaped(report["new"]["release"])
    head = f"## {SIGNS[report['outcome']]} {new} {OUTCOMES[report['outcome']]} {old}\n"
    reasons = [f"- {escaped(reason)}" for reason in report["reasons"]]
    excused = [
        f"\nExcused by the baseline ({escaped(e.reason)}): {escaped(r.text)}" for r, e in ruling_of(report).excused
    ]
    must = escaped_long(report["must"])
    return "\n".join([head, *reasons, "", must, *excused, *_table(report), *prices(report["probe"]), ""])


def escaped_long(text: str) -> str:
    """Escape a text of any length, sentence by sentence."""
    return ". ".join(escaped(sentence) for sentence in text.split(". "))


def _table(report: Mapping[str, Any]) -> Iterator[str]:
    listed, fallen = apart(each for each in report["differences"] if each["impact"] != "none")
    if listed:
        yield "\n| impact | what | before | after | |\n|---|---|---|---|---|"
    for each in listed[:MOST]:
        before, after = (escaped(each[key]) if each[key] is not None else "-" for key in ("before", "after"))
        what = f"{each['kind']} {escaped(each['subject'])}"
        yield f"| {MARKS[each['impact']]} {each['impact']} | {what} | {before} | {after} | {escaped(each['detail'])} |"
    if len(listed) > MOST:
        yield f"\n{len(listed) - MOST} more differences are left out here."
    if fallen:
        yield f"\nNot to be asked any more, since what they need fell: {escaped(', '.join(fallen))}."
    if unweighed := report["counts"]["none"]:
        yield f"\n{unweighed} differences of no consequence are in the JSON report alone."


def told_of(report: GateReport) -> Iterator[Told]:
    """Tell of each reason, of each other clause that fails, and of what the baseline excuses."""
    new, ruling = new_of(report), ruling_of(report)
    name = name_of(new)
    for reason in ruling.reasons:
        yield "error", titled(f"{name} {reason.about.removeprefix(f'{name}: ')}", where(reason, new)), reason.text
    for clause in costs(report, ruling):
        yield KINDS[clause.severity], titled(f"{name} {clause.id}", place_of(new, clause.id)), clause.detail
    for reason, entry in ruling.excused:
        yield "notice", titled(f"{name} {reason.about}", where(reason, new)), excuse(reason, entry)
