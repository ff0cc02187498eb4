"""The report as one HTML page that needs nothing else: a matrix of releases and clauses, with the evidence."""

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from msgspec import Struct, structs, to_builtins

from turngate.contract.clauses import Result
from turngate.contract.load import catalogue
from turngate.contract.verdict import ClauseResult
from turngate.sanitize import command_line, visible
from turngate_probes.journal.tool_access import rows as price_rows
from turngate_probes.report.structs import ProbeReport, ReleaseReport
from turngate_probes.report.text import meaning
from turngate_probes.report.wording import gist, known, verdicts

FOLDER = Path(__file__).parent / "html"
MOST_EVIDENCE = 12_000_000  # characters of JSON, of the whole page
FEW = 8  # so many columns have room for what stands above them
LONGEST_WORD = 1000

STATES = {
    "pass": "the clause held",
    "fail": "it did not, and nothing excuses it",
    "deviates": "it did not, as the contract says of this release; an orchestrator must do what the detail says",
    "stale": "it held, though the contract says that it would not",
    "unsupported": "the release has no such facility",
    "not_run": "it could not be asked; the detail says why",
}
VERDICT_SIGNS = {"compatible": "pass", "degraded": "deviates", "unanswered": "not_run", "broken": "fail"}

Json = Mapping[str, Any]


class Head(Struct, frozen=True):
    """What stands above the matrix; `chips` are each a sign, a count and a word, `gate` is what a gate adds."""

    kind: str
    title: str
    lead: str
    chips: Sequence[tuple[str, int, str]]
    states: Mapping[str, str]
    gate: Json | None = None


def page(report: ProbeReport) -> str:
    """Render the page of a probe."""
    ended = f"Exit code {report.exit_code}: {meaning(report)}."
    lead = "Interrupted: this is what was known by then." if report.interrupted else ended
    chips = [(VERDICT_SIGNS[verdict], count, verdict.value) for verdict, count in verdicts(report).items()]
    return rendered(report, Head("probe report", gist(report), lead, chips, STATES))


def rendered(report: ProbeReport, head: Head) -> str:
    """Render a page. Nothing in it but its own script and style can run or load, whatever engines wrote."""
    style, script = (_source(name) for name in ("page.css", "page.js"))
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )
    columns = [_column(number, release) for number, release in enumerate(report.releases)]
    return _environment().get_template("page.html.j2").render(
        report=report, policy=policy, style=Markup(style), script=Markup(script),  # noqa: S704 - files of ours
        head=head, verdict_signs=VERDICT_SIGNS, started=_started(report), columns=columns, few=len(columns) <= FEW,
        engines=_engines(columns), families=_families(report), counts=_counts(report, head.states),
        prices=_prices(columns),
    )  # fmt: skip


def _environment() -> Environment:
    found = Environment(
        loader=FileSystemLoader(FOLDER), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    found.filters |= {
        "shown": visible,
        "lines": lambda text: visible(text.strip("\n"), keep="\n\t"),
        "command": lambda argv: command_line(argv, LONGEST_WORD),
        "words": lambda text: text.replace("_", " "),
    }
    return found


def _source(name: str) -> str:
    return (FOLDER / name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _started(report: ProbeReport) -> str:
    at = datetime.fromisoformat(report.started_at).astimezone(UTC)
    return f"{at.day} {at:%B %Y, %H:%M} UTC"


def _column(number: int, release: ReleaseReport) -> Json:
    version = release.version or "unknown"
    return {**structs.asdict(release), "n": number, "version": version, "title": f"{release.engine} {version}"}


def _engines(columns: Iterable[Json]) -> Sequence[Json]:
    """Group the columns that stand side by side."""
    groups: list[dict[str, Any]] = []
    for column in columns:
        if not groups or groups[-1]["name"] != column["engine"]:
            groups.append({"name": column["engine"], "columns": []})
        groups[-1]["columns"].append(column)
    return groups


def _prices(columns: Iterable[Json]) -> list[Json]:
    """Return the lines of the table of prices."""
    return [{"column": column, **row._asdict()} for column in columns for row in price_rows(column["tool_access"])]


def _families(report: ProbeReport) -> list[Json]:
    """Return the rows by the first word of their clause, in the catalogue's order; unknown clauses come last."""
    found = [{clause.id: clause for clause in release.clauses} for release in report.releases]
    ids = [each.id for each in catalogue().clauses if any(each.id in held for held in found)]
    ids += list(dict.fromkeys(name for held in found for name in held if name not in ids))
    budget = _Budget()
    # what failed is what one comes for
    for held in found:
        for clause in sorted(held.values(), key=lambda each: each.result != Result.FAIL):
            budget.take(clause)
    families: dict[str, list[Json]] = {}
    for number, clause_id in enumerate(ids):
        row = _row(number, clause_id, [held.get(clause_id) for held in found], budget)
        families.setdefault(clause_id.partition(".")[0], []).append(row)
    return [{"name": name, "rows": rows} for name, rows in families.items()]


def _row(number: int, clause_id: str, clauses: list[ClauseResult | None], budget: "_Budget") -> Json:
    entry = known(clause_id)
    cells = [clause and _cell(clause, budget) for clause in clauses]
    severity = next(clause.severity for clause in clauses if clause)
    return {
        "n": number, "id": clause_id, "short": clause_id.partition(".")[2], "cells": cells, "severity": severity,
        "sentence": entry.sentence if entry else "", "why": entry.why if entry else "",
    }  # fmt: skip


def _cell(clause: ClauseResult, budget: "_Budget") -> Json:
    bare = [name for name in clause.evidence if isinstance(name, str)]
    whole = [each for each in clause.evidence if not isinstance(each, str)]
    left_out = bool(whole) and id(clause) not in budget.taken
    return {
        "state": _state(clause), "detail": clause.detail, "level": clause.level, "names": bare,
        "evidence": [] if left_out else whole, "left_out": left_out,
    }  # fmt: skip


def _state(clause: ClauseResult) -> str:
    return "stale" if clause.stale and clause.result == Result.PASS else str(clause.result)


def _counts(report: ProbeReport, states: Iterable[str]) -> dict[str, int]:
    found = [_state(clause) for release in report.releases for clause in release.clauses]
    return {state: found.count(state) for state in states}


class _Budget:
    """Bounds the evidence of a page: `taken` are the clauses (by identity) whose evidence is shown."""

    def __init__(self) -> None:
        self.taken: set[int] = set()
        self._left = MOST_EVIDENCE

    def take(self, clause: ClauseResult) -> None:
        """Take a clause's evidence while there is room."""
        size = len(json.dumps(to_builtins(clause.evidence)))
        if size <= self._left:
            self._left -= size
            self.taken.add(id(clause))
