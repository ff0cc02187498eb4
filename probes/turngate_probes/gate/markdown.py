"""The report of a gate as GitHub's Markdown: the outcome, what must change, and a table of differences."""

from collections.abc import Iterator, Mapping
from typing import Any

from turngate_probes.gate.text import OUTCOMES, apart
from turngate_probes.gate.view import ruling_of
from turngate_probes.report.markdown import escaped, prices

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
