"""Reports as GitHub's Markdown, such as a job summary: what was found first, then tables, and evidence."""

import html
import re
from collections.abc import Iterable, Iterator

from turngate.contract.clauses import Result
from turngate.contract.verdict import ClauseResult
from turngate.sanitize import bounded, visible
from turngate_probes.journal.tool_access import rows as tool_access_rows
from turngate_probes.report.evidence import evidence_text
from turngate_probes.report.gate_structs import Difference, GateReport
from turngate_probes.report.gate_text import apart, title
from turngate_probes.report.structs import ProbeReport, ReleaseReport
from turngate_probes.report.wording import basis, failures, gist, known, verdicts

MOST_BYTES = 1024 * 1024  # a longer summary is not shown at all
SPARE = 4096
LONGEST = 500
MOST_DIFFERENCES = 200
SIGNS = {
    "compatible": "✅", "degraded": "🟡", "unanswered": "❔", "broken": "❌",
    "pass": "✅", "fail": "❌", "crashed": "💥", "interrupted": "❔",
}  # fmt: skip
MARKS = {"breaking": "❌", "degraded": "🟡", "additive": "🟢"}
# all that starts something within a line: markup, HTML, a cell, a mention, a reference, math, an emoji, a link
_SPECIAL = re.compile(r"[&<>|`*_\[\]~^$@#\\!]|:(?=//|\w)|(?<=www)\.", re.IGNORECASE)
_OTHERS = (Result.DEVIATES, Result.UNSUPPORTED, Result.NOT_RUN)


def markdown(report: ProbeReport | GateReport) -> str:
    """Render a report in at most 1 MiB; says how much is left out."""
    if isinstance(report, GateReport):
        parts = list(_head_of_gate(report))
        sections = [(_differences(report), "differences"), (_tool_access(report.probe.releases), "lines")]
    else:
        parts = list(_head(report))
        failed = (_failure(*failure) for failure in failures(report.releases))
        sections = [(_table(report), "releases"), (_tool_access(report.releases), "lines"), (failed, "failures")]
    room = MOST_BYTES - SPARE - sum(map(_size, parts))
    for section, what in ((list(lines), name) for lines, name in sections):
        kept, room = _fitting(section, room)
        parts += kept
        if len(kept) < len(section):
            parts.append(f"\n{len(section) - len(kept)} more {what} are left out here.\n")
    return "\n".join(parts)


def escaped(text: str) -> str:
    """Write text so that it is text, in a cell of a table too: nothing of it is Markdown, HTML or a new line."""
    return _SPECIAL.sub(lambda special: f"&#{ord(special[0])};", visible(bounded(text, LONGEST)))


def _head(report: ProbeReport) -> Iterator[str]:
    counts = {verdict: count for verdict, count in verdicts(report).items() if count}
    sign = f"{SIGNS[next(iter(counts))]} " if counts else ""
    yield f"## {sign}{escaped(gist(report))}\n"
    ended = "interrupted: this is what was known by then; " if report.interrupted else ""
    counted = ", ".join(f"{count} {verdict}" for verdict, count in counts.items()) or "no releases"
    how = f"level {report.level}, {report.seconds:.0f} s, exit code {report.exit_code}"
    yield f"{ended}{counted}; {how}, turngate {escaped(report.turngate)}\n"


def _head_of_gate(report: GateReport) -> Iterator[str]:
    yield f"## {SIGNS[report.outcome]} {escaped(title(report))}\n"
    yield from (f"- {escaped(reason)}" for reason in report.reasons)
    # sentence by sentence, since there may be more of them than one text can be long
    yield "\n" + ". ".join(escaped(sentence) for sentence in report.must.split(". "))
    for excuse in report.ruling.excused:
        yield f"\nExcused by the baseline ({escaped(excuse.why)}): {escaped(excuse.reason.text)}"


def _table(report: ProbeReport) -> Iterator[str]:
    if report.releases:
        yield "| release | verdict | profile | passed | failed | not passed otherwise |\n|---|---|---|---:|---:|---|"
    for release in report.releases:
        results = [clause.result for clause in release.clauses]
        others = [f"{results.count(r)} {r.replace('_', ' ')}" for r in _OTHERS if r in results]
        told = escaped(release.failed.what) if release.failed else ", ".join(others)
        verdict = f"{SIGNS[release.verdict]} {release.verdict}{basis(release)}"
        yield (
            f"| {escaped(release.release)} | {verdict} | {release.profile.kind.replace('_', ' ')} "
            f"| {results.count(Result.PASS)} | {results.count(Result.FAIL)} | {told} |"
        )


def _differences(report: GateReport) -> Iterator[str]:
    listed, fallen = apart(row for row in report.differences if row.impact in MARKS)
    if listed:
        yield "\n| impact | what | before | after | |\n|---|---|---|---|---|"
    yield from (_difference(row) for row in listed[:MOST_DIFFERENCES])
    if len(listed) > MOST_DIFFERENCES:
        yield f"\n{len(listed) - MOST_DIFFERENCES} more differences are left out here."
    if fallen:
        yield f"\nNot to be asked any more, since what they need fell: {escaped(', '.join(fallen))}."
    if unweighed := len(report.differences) - len(listed) - len(fallen):
        yield f"\n{unweighed} differences of no consequence are in the JSON report alone."


def _difference(row: Difference) -> str:
    before, after = ("-" if side is None else escaped(side) for side in (row.before, row.after))
    what = f"{row.kind} {escaped(row.subject)}"
    return f"| {MARKS[row.impact]} {row.impact} | {what} | {before} | {after} | {escaped(row.detail)} |"


def _tool_access(releases: Iterable[ReleaseReport]) -> Iterator[str]:
    """Write the table of the tools that each mode offers."""
    listed = [(release.release, row) for release in releases for row in tool_access_rows(release.tool_access)]
    if listed:
        yield "\n### Tools available per approval mode\n"
        yield "| release | mode | tools offered | in this mode alone | a tool call | exit code |"
        yield "|---|---|---:|---|---|---:|"
    for name, row in listed:
        told = f"{row.offered} | {escaped(row.alone)} | {escaped(row.call)} | {row.code}"
        yield f"| {escaped(name)} | {row.mode} | {told} |"


def _failure(release: ReleaseReport, clause: ClauseResult) -> str:
    entry = known(clause.id)
    why = f"{escaped(entry.sentence)} {escaped(entry.why)}\n\n" if entry else ""
    # the blank lines make <pre> a block of its own, which ends at </pre> alone
    return (
        f"\n<details><summary>❌ {escaped(release.release)}: {escaped(clause.id)} ({clause.severity}): "
        f"{escaped(clause.detail)}</summary>\n\n{why}"
        f"<pre>\n{html.escape(evidence_text(clause.evidence))}\n</pre>\n\n</details>"
    )


def _fitting(parts: list[str], room: int) -> tuple[list[str], int]:
    for number, part in enumerate(parts):
        if _size(part) > room:
            return parts[:number], room
        room -= _size(part)
    return parts, room


def _size(part: str) -> int:
    return len(part.encode()) + 1
