"""The report as GitHub's Markdown, such as a job summary: a table of verdicts, and what failed with its evidence."""

import html
import re
from collections.abc import Iterator

from turngate.contract.clauses import Result
from turngate.contract.verdict import ClauseResult
from turngate.sanitize import bounded, visible
from turngate_probes.journal.tool_access import rows as price_rows
from turngate_probes.report.structs import ProbeReport, ReleaseReport
from turngate_probes.report.text import basis
from turngate_probes.report.wording import evidence_text, failures, gist, known, verdicts

MOST_BYTES = 1024 * 1024  # a longer summary is not shown at all
SPARE = 4096
LONGEST = 500
SIGNS = {"compatible": "✅", "degraded": "🟡", "unanswered": "❔", "broken": "❌"}
# all that starts something within a line: markup, HTML, a cell, a mention, a reference, math, an emoji, a link
_SPECIAL = re.compile(r"[&<>|`*_\[\]~^$@#\\!]|:(?=//|\w)|(?<=www)\.", re.IGNORECASE)


def markdown(report: ProbeReport) -> str:
    """Render the report in at most 1 MiB; says how much is left out."""
    parts = [f"## {SIGNS.get(_worst(report), '')} {escaped(gist(report))}\n".replace("##  ", "## "), _counted(report)]
    room = MOST_BYTES - SPARE - sum(map(_size, parts))
    sections = ((_table(report), "releases"), (prices(report), "lines"), (_failures(report), "failures"))
    for section, what in ((list(lines), name) for lines, name in sections):
        kept, room = _fitting(section, room)
        parts += kept
        if len(kept) < len(section):
            parts.append(f"\n{len(section) - len(kept)} more {what} are left out here.\n")
    return "\n".join(parts)


def escaped(text: str) -> str:
    """Write text so that it is text, in a cell of a table too: nothing of it is Markdown, HTML or a new line."""
    return _SPECIAL.sub(lambda found: f"&#{ord(found[0])};", visible(bounded(text, LONGEST)))


def _worst(report: ProbeReport) -> str:
    return next((verdict.value for verdict, count in verdicts(report).items() if count), "")


def _counted(report: ProbeReport) -> str:
    counts = ", ".join(f"{count} {verdict}" for verdict, count in verdicts(report).items() if count)
    ended = "interrupted: this is what was known by then; " if report.interrupted else ""
    how = f"level {report.level}, {report.seconds:.0f} s, exit code {report.exit_code}"
    return f"{ended}{counts or 'no releases'}; {how}, turngate {escaped(report.turngate)}\n"


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


def prices(report: ProbeReport) -> Iterator[str]:
    """Write the table of what it costs not to act unasked."""
    listed = [(release.release, row) for release in report.releases for row in price_rows(release.tool_access)]
    if listed:
        yield "\n### The price of not acting unasked\n"
        yield "| release | mode | tools offered | in this mode alone | a tool call | exit code |"
        yield "|---|---|---:|---|---|---:|"
    for name, row in listed:
        told = f"{row.offered} | {escaped(row.alone)} | {escaped(row.call)} | {row.code}"
        yield f"| {escaped(name)} | {row.mode} | {told} |"


_OTHERS = (Result.DEVIATES, Result.UNSUPPORTED, Result.NOT_RUN)


def _failures(report: ProbeReport) -> Iterator[str]:
    for release, clause in failures(report.releases):
        yield _failure(release, clause)


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
