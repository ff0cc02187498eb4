"""Reports as GitHub's Markdown, such as a job summary: problems, what to do, tables, and evidence."""

import html
import re
from collections.abc import Iterable, Iterator
from itertools import accumulate

from turngate.contract.verdict import ClauseResult
from turngate.history_text import named
from turngate.sanitize import bounded, visible
from turngate_probes.report.evidence import evidence_text
from turngate_probes.report.release_view import ReleaseView
from turngate_probes.report.reports import Difference, GateReport, Impact, ReleaseReport
from turngate_probes.report.view import ACTIONS, EDITS, JudgedCase, Suite, View
from turngate_probes.report.wording import advice, counted, duration, known, profile_of, remarks, verdict_of

MOST_BYTES = 1024 * 1024  # GitHub doesn't show a longer summary at all
SPARE = 4096
LONGEST = 500
MOST_DIFFERENCES = 200
# by judgement, worst first
SIGNS = {"failed": "❌", "open": "❔", "warned": "🟡", "passed": "✅"}
OUTCOMES = {"pass": "✅", "fail": "❌", "unanswered": "❔", "crashed": "💥", "interrupted": "❔"}
SUBJECTS = {"probe": "releases", "gate": "releases", "conform": "results"}
MARKS_OF = {"error": "❌", "warning": "🟡", "note": "🔵"}
MOST_PROBLEMS = 20
MARKS = {"breaking": "❌", "degraded": "🟡", "additive": "🟢"}
# everything with a meaning within a line: markup, HTML, a cell, a mention, a reference, math, an emoji, a link
_SPECIAL = re.compile(r"[&<>|`*_\[\]~^$@#\\!]|:(?=//|\w)|(?<=www)\.", re.IGNORECASE)


def markdown(view: View) -> str:
    """Render a report in at most 1 MiB; it says how much is left out."""
    gate = view.gate if isinstance(view, ReleaseView) else None
    parts = list(_head_of_gate(gate, view) if isinstance(view, ReleaseView) and gate else _head(view))
    room = MOST_BYTES - SPARE - sum(map(_size, parts))
    for what, section in _sections(view).items():
        fitting = sum(1 for total in accumulate(map(_size, section)) if total <= room)
        room -= sum(map(_size, section[:fitting]))
        parts += section[:fitting]
        if fitting < len(section):
            parts.append(f"\n{len(section) - fitting} more {what} are not shown.\n")
    return "\n".join(parts)


def _sections(view: View) -> dict[str, list[str]]:
    """Return what follows the head, by what its lines are called."""
    if not isinstance(view, ReleaseView):
        return {"scenarios": list(_scenarios(view))}
    lines = list(_tool_access(view))
    if view.gate:
        edits = list(_contract_edits(view))
        return {"differences": list(_differences(view, view.gate)), "changes of the contract": edits, "lines": lines}
    return {
        "caveats": list(_actions(view)),
        "releases": list(_releases(view)),
        "lines": lines,
        "failures": [_failure(each, each.clause) for each in view.remarks if each.rule and each.clause],
    }


def escaped(text: str) -> str:
    """Escape text so that nothing in it is Markdown, HTML or a new line, even in a table cell."""
    return _SPECIAL.sub(lambda special: f"&#{ord(special[0])};", visible(bounded(text, LONGEST)))


def _head(view: View) -> Iterator[str]:
    signs = set(map(_sign, view.suites))
    sign = next((f"{sign} " for sign in SIGNS.values() if sign in signs), "")
    yield f"## {sign}{escaped(view.headline)}\n"
    ended = "interrupted, so the results are incomplete; " if view.interrupted else ""
    counts = ", ".join(f"{each.count} {each.word}" for each in view.counts if each.count)
    listed = counts or ("selected clauses only" if view.columns else f"no {SUBJECTS[view.kind]}")
    level = f"level {view.probe.level}, " if isinstance(view, ReleaseView) else ""
    how = f"{level}{duration(view.seconds)}, exit code {view.exit_code} ({escaped(view.meaning)})"
    yield f"{ended}{listed}; {how}, turngate {escaped(view.turngate)}\n"
    yield from (
        f"- {MARKS_OF[remark.level]} {escaped(remark.title)}: {escaped(remark.text)}"
        for remark in view.remarks[:MOST_PROBLEMS]
    )
    if more := len(view.remarks[MOST_PROBLEMS:]):
        yield f"- and {more} more"


def _sign(suite: Suite) -> str:
    """Return the sign of the worst judgement in a suite."""
    judgements = {case.judgement for case in suite.cases}
    return next(sign for judgement, sign in SIGNS.items() if judgement in judgements or judgement == "passed")


def _head_of_gate(report: GateReport, view: ReleaseView) -> Iterator[str]:
    yield f"## {OUTCOMES[report.outcome]} {escaped(view.headline)}\n"
    qualified = (remark for release in report.probe.releases for remark in remarks(release))
    yield from (f"- {escaped(line)}" for line in (*report.reasons, *qualified))
    yield from _actions(view)
    for excuse in report.decision.excused:
        yield f"\nExcused by the baseline ({escaped(excuse.why)}): {escaped(excuse.reason.text)}"


def _actions(view: ReleaseView) -> Iterator[str]:
    """Write what an orchestrator must do: one line for each caveat or change."""
    if view.actions or view.remaining:
        yield f"\n### {ACTIONS}\n"
    if view.remaining:
        yield view.remaining
    several = len(view.probe.releases) > 1 and not view.gate
    for action in view.actions:
        where = f" ({escaped(named(action.releases))})" if several else ""
        new = "**new** " if action.new else ""
        yield f"- {new}{escaped(action.about)}: {escaped(action.text)}{where}"


def _table(head: str, rows: Iterable[tuple[object, ...]]) -> Iterator[str]:
    """Write a table, unless it has no rows."""
    for number, cells in enumerate(rows):
        if not number:
            yield head
        yield f"| {' | '.join(map(str, cells))} |"


def _releases(view: ReleaseView) -> Iterator[str]:
    head = "\n| release | verdict | clauses | profile |\n|---|---|---|---|"
    return _table(head, (_release(*pair) for pair in zip(view.probe.releases, view.suites, strict=True)))


def _release(release: ReleaseReport, suite: Suite) -> tuple[object, ...]:
    return (
        escaped(release.release),
        f"{_sign(suite)} {escaped(verdict_of(release))}",
        escaped(release.failed.what) if release.failed else counted(release).partition(": ")[2],
        profile_of(release).replace("_", " "),
    )


def _scenarios(view: View) -> Iterator[str]:
    """Write a table of what an orchestrator did in each scenario."""
    head = "\n| engine | scenario | result | broken rules |\n|---|---|---|---|"
    listed = (
        (escaped(column.title), escaped(case.name), case.state, _broken(case) or escaped(case.detail))
        for column, suite in zip(view.columns, view.suites, strict=True)
        for case in suite.cases
    )
    return _table(head, listed)


def _broken(case: JudgedCase) -> str:
    broken = (block for block in case.blocks if block.text)
    return "; ".join(f"`{block.title}`: {escaped(block.text[0])}" for block in broken)


def _differences(view: ReleaseView, gate: GateReport) -> Iterator[str]:
    listed = view.differences
    yield from _table(
        "\n| impact | what | before | after | |\n|---|---|---|---|---|", map(_difference, listed[:MOST_DIFFERENCES])
    )
    if len(listed) > MOST_DIFFERENCES:
        yield f"\n{len(listed) - MOST_DIFFERENCES} more differences are not shown."
    if view.fallen:
        fallen = ", ".join(row.subject for row in view.fallen)
        yield f"\nNo longer testable, because a clause that they need fails: {escaped(fallen)}."
    if unweighed := gate.counts[Impact.NONE]:
        yield f"\n{unweighed} more differences have no consequences; the JSON report lists them."


def _difference(row: Difference) -> tuple[object, ...]:
    before, after = ("-" if side is None else escaped(side) for side in (row.before, row.after))
    what = f"{row.kind} {escaped(row.subject)}"
    return f"{MARKS[row.impact]} {row.impact}", what, before, after, escaped(row.told)


def _contract_edits(view: ReleaseView) -> Iterator[str]:
    """Write what to change in the contract, ready to paste."""
    if view.contract_edits:
        yield f"\n### {EDITS}"
    for edit in view.contract_edits:
        text = html.escape(visible(edit.text, keep="\n"))
        yield f"\n{escaped(edit.place)}: {escaped(edit.what)}\n\n<pre>\n{text}\n</pre>"


def _tool_access(view: ReleaseView) -> Iterator[str]:
    head = "| release | mode | tools offered | only in this mode | tool call | exit code |\n|---|---|---:|---|---|---:|"
    rows = (
        (escaped(release.release), row.mode, row.offered, escaped(row.alone), escaped(row.call), row.code)
        for release, row in view.tool_access
    )
    return _table(f"\n### Tools available per approval mode\n\n{head}", rows)


def _failure(remark: JudgedCase, clause: ClauseResult) -> str:
    entry = known(clause.id)
    explained = (f"{entry.sentence} {entry.why}", " ".join(advice(entry))) if entry else ()
    why = "".join(f"{escaped(each)}\n\n" for each in explained)
    # the blank lines make <pre> a separate block, which ends only at </pre>
    return (
        f"\n<details><summary>{MARKS_OF[remark.level]} {escaped(remark.subject)}: {escaped(clause.id)} "
        f"({clause.severity}): {escaped(clause.detail)}</summary>\n\n{why}"
        f"<pre>\n{html.escape(evidence_text(clause.evidence))}\n</pre>\n\n</details>"
    )


def _size(part: str) -> int:
    return len(part.encode()) + 1
