"""The text of a gate: the outcome and its reasons, what differs, what must change, and the price of safety."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from turngate.sanitize import bounded, visible
from turngate_probes.journal.tool_access import rows
from turngate_probes.report.text import ended, evidence_lines, offered, print_line, style_of

OUTCOMES = {
    "pass": "may take the place of",
    "fail": "must not take the place of",
    "unanswered": "could not be asked everything about taking the place of",
    "crashed": "was not judged, since turngate itself failed, about taking the place of",
    "interrupted": "was not asked to the end about taking the place of",
}
STYLES = {"pass": "pass", "fail": "fail", "unanswered": "not_run", "crashed": "fail", "interrupted": "not_run"}
IMPACTS = {"breaking": "fail", "degraded": "deviates", "additive": "pass", "none": "not_run"}
LONGEST = 240
MOST_OF_A_KIND = 12


def print_gate(console: Console, report: Mapping[str, Any]) -> None:
    """Print the whole report; only differences that cost something are printed one by one."""
    for depth, line in lines(report):
        print_line(console, depth, line)


def lines(report: Mapping[str, Any]) -> Iterator[tuple[int, Text]]:
    """Return the lines with their depth."""
    old, new = report["old"], report["new"]
    title = visible(f"{new['release']} {OUTCOMES[report['outcome']]} {old['release']}")
    yield 0, Text(title, style_of(STYLES[report["outcome"]]))
    yield from ((1, Text(visible(bounded(reason, LONGEST)))) for reason in report["reasons"])
    yield 0, Text()
    yield 0, Text(visible(report["must"]))
    yield from _differences(report)
    yield from _failing(report)
    yield from _price(report)
    for entry in report["baseline"]["entries"]:
        yield 0, Text(visible(f"baseline: {entry['clause']} {entry['state'].replace('_', ' ')} ({entry['reason']})"))
    counts = ", ".join(f"{count} {impact}" for impact, count in report["counts"].items() if count)
    yield 0, Text()
    yield 0, Text(f"differences: {counts or 'none'}; {report['seconds']:.1f} s; exit code {report['exit_code']}")


def _differences(report: Mapping[str, Any]) -> Iterator[tuple[int, Text]]:
    for impact in ("breaking", "degraded", "additive"):
        listed = [each for each in report["differences"] if each["impact"] == impact]
        shown, fallen = apart(listed)
        if listed:
            yield 0, Text()
            yield 0, Text(impact, style_of(IMPACTS[impact]))
        for each in shown[:MOST_OF_A_KIND]:
            yield 1, Text(visible(bounded(_difference(each), LONGEST)))
        if len(shown) > MOST_OF_A_KIND:
            yield 1, Text(f"and {len(shown) - MOST_OF_A_KIND} more that are {impact}")
        if fallen:
            yield 1, Text(f"not to be asked any more: {', '.join(fallen)}")


def apart(differences: Iterable[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], list[str]]:
    """Take out the clauses that only fell with others that they need, and give their names."""
    listed = list(differences)
    fallen = [each["subject"] for each in listed if (each["kind"], each["after"]) == ("clause", "not_run")]
    return [each for each in listed if each["kind"] != "clause" or each["subject"] not in fallen], fallen


def _difference(each: Mapping[str, Any]) -> str:
    change = f"{each['before'] or 'nothing'} → {each['after'] or 'nothing'}"
    if each["before"] is None or each["after"] is None:
        change = "new" if each["before"] is None else "gone"
    return f"{each['kind']} {each['subject']}: {change}: {each['detail']}"


def _failing(report: Mapping[str, Any]) -> Iterator[tuple[int, Text]]:
    """Show what failed in the newer release, with its evidence."""
    for clause in report["probe"].releases[-1].clauses:
        if clause.result != "fail":
            continue
        yield 0, Text()
        yield 0, Text.assemble(("fail", style_of("fail")), visible(f" {clause.id}: {clause.detail}"))
        for item in clause.evidence:
            yield from evidence_lines(item)


def _price(report: Mapping[str, Any]) -> Iterator[tuple[int, Text]]:
    for release in report["probe"].releases:
        listed = list(rows(release.tool_access))
        if listed:
            yield 0, Text()
            yield 0, Text(visible(f"the price of not acting unasked, {release.release}"))
        for row in listed:
            yield 1, Text(visible(f"mode {row.mode}: {offered(row)}; a call of {row.call}{ended(row)}"))
