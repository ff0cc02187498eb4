"""Reports as one self-contained HTML page: a matrix of releases and clauses, with the evidence."""

import base64
import hashlib
import json
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from msgspec import structs, to_builtins

from turngate.contract.clauses import Result
from turngate.contract.load import catalogue
from turngate.contract.verdict import ClauseResult
from turngate.sanitize import command_line, visible
from turngate_probes.report.structs import GateReport, ProbeReport, ReleaseReport
from turngate_probes.report.view import (
    ACTIONS,
    View,
    counted,
    duration,
    known,
    label,
    state,
    verdict_of,
    version_of,
    view,
)

FOLDER = Path(__file__).parent / "html"
MOST_EVIDENCE = 12_000_000  # characters of JSON in the whole page
MOST_PROBLEMS = 20
FEW = 8  # the most columns that have room for full headings
LONGEST_WORD = 1000

STATES = ("pass", "fail", "deviates", "stale", "unsupported", "not_run", "excused")
VERDICT_SIGNS = {
    "no verdict": "not_run",
    "compatible": "pass",
    "degraded": "deviates",
    "unanswered": "not_run",
    "broken": "fail",
}
IMPACT_SIGNS = {"breaking": "fail", "degraded": "deviates", "additive": "pass", "none": "unsupported"}

Json = Mapping[str, Any]


def page(report: ProbeReport | GateReport) -> str:
    """Render a page. Only its own script and style can run or load, whatever engines wrote."""
    shown = view(report)
    probe = shown.probe
    style, script = (_source(name) for name in ("page.css", "page.js"))
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )
    columns = [_column(number, release) for number, release in enumerate(probe.releases)]
    families = _families(probe.releases, {excuse.reason.about: excuse.text for excuse in shown.ruling.excused})
    cells = [cell["state"] for family in families for row in family["rows"] for cell in row["cells"] if cell]
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            view=shown,
            actions_title=ACTIONS,
            report=probe,
            gate=shown.gate,
            policy=policy,
            style=Markup(style),  # noqa: S704 - files of ours
            script=Markup(script),  # noqa: S704 - files of ours
            verdict_signs=VERDICT_SIGNS,
            impact_signs=IMPACT_SIGNS,
            started=_started(probe),
            columns=columns,
            few=len(columns) <= FEW,
            engines=_engines(columns),
            verdicts={name: count for name, count in shown.verdicts.items() if any(shown.verdicts.values())},
            problems=_problems(shown, families),
            most_problems=MOST_PROBLEMS,
            families=families,
            counts={state: cells.count(state) for state in STATES},
            tool_access=[(columns[probe.releases.index(release)], row) for release, row in shown.tool_access],
        )
    )


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "label": label,
        "duration": duration,
        "shown": visible,
        "lines": lambda text: visible(text.strip("\n"), keep="\n\t"),
        "command": lambda argv: command_line(argv, LONGEST_WORD),
        "words": lambda text: text.replace("_", " "),
    }
    return environment


def _source(name: str) -> str:
    return (FOLDER / name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _started(report: ProbeReport) -> str:
    at = datetime.fromisoformat(report.started_at).astimezone(UTC)
    return f"{at.day} {at:%B %Y, %H:%M} UTC"


def _column(number: int, release: ReleaseReport) -> Json:
    version = version_of(release)
    verdict, title = release.verdict or "no verdict", f"{release.engine} {version}"
    shown = {"verdict": verdict, "n": number, "version": version, "title": title, "counted": counted(release)}
    return {**structs.asdict(release), **shown, "verdict_with_caveats": verdict_of(release)}


def _problems(shown: View, families: Iterable[Json]) -> list[Json]:
    """Return the remarks of a probe, each with its cell."""
    rows = {row["id"]: row["n"] for family in families for row in family["rows"]}
    columns = {release.release: number for number, release in enumerate(shown.probe.releases)}
    problems = list[Json]()
    for remark in () if shown.gate else shown.remarks:
        row, column = rows.get(remark.about), columns[remark.release.release]
        link = f"r{column}" if row is None else f"c{row}-{column}"
        sign = {"error": "fail", "warning": "deviates", "note": "stale"}[remark.level]
        problems.append({"link": link, "sign": sign, "title": remark.title, "text": remark.text})
    return problems


def _engines(columns: Iterable[Json]) -> list[Json]:
    """Group adjacent columns of the same engine."""
    groups = groupby(columns, key=lambda column: column["engine"])
    return [{"name": name, "columns": list(group)} for name, group in groups]


def _families(releases: Sequence[ReleaseReport], excused: Mapping[str, str]) -> list[Json]:
    """Return the rows by the first word of their clause, in the catalogue's order; unknown clauses come last."""
    results = [{clause.id: clause for clause in release.clauses} for release in releases]
    catalogued = dict.fromkeys(catalogue())
    shown = {name for by_id in results for name in by_id}
    ids = [name for name in dict.fromkeys([*catalogued, *(n for by_id in results for n in by_id)]) if name in shown]
    whole = _with_evidence(results)
    families: dict[str, list[Json]] = {}
    for number, clause_id in enumerate(ids):
        cells = [_cell(by_id[clause_id], whole) if clause_id in by_id else None for by_id in results]
        if clause_id in excused and cells[-1]:
            cells[-1] |= {"state": "excused", "detail": excused[clause_id]}
        severity = next(by_id[clause_id].severity for by_id in results if clause_id in by_id)
        entry, (family, _, short) = known(clause_id), clause_id.partition(".")
        families.setdefault(family, []).append(
            {
                "n": number,
                "id": clause_id,
                "short": short,
                "cells": cells,
                "severity": severity,
                "sentence": entry.sentence if entry else "",
                "why": entry.why if entry else "",
            }
        )
    return [{"name": name, "rows": rows} for name, rows in families.items()]


def _cell(clause: ClauseResult, whole: Container[int]) -> dict[str, Any]:
    evidence = [shown for shown in clause.evidence if not isinstance(shown, str)]
    left_out = bool(evidence) and id(clause) not in whole
    return {
        "state": str(state(clause)),
        "detail": clause.detail,
        "action": clause.action,
        "level": clause.level,
        "evidence": [] if left_out else evidence,
        "left_out": left_out,
        "names": [name for name in clause.evidence if isinstance(name, str)],
    }


def _with_evidence(results: Iterable[Mapping[str, ClauseResult]]) -> set[int]:
    """Choose the clauses (by identity) whose evidence fits on the page, failures first."""
    chosen, room = set[int](), MOST_EVIDENCE
    for by_id in results:
        for clause in sorted(by_id.values(), key=lambda clause: clause.result is not Result.FAIL):
            size = len(json.dumps(to_builtins(clause.evidence)))
            if size <= room:
                room -= size
                chosen.add(id(clause))
    return chosen
