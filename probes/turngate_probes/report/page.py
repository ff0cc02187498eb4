"""Reports as one self-contained HTML page: a matrix of rows and columns, with the evidence."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from msgspec import to_builtins

from turngate.line_breaks import unbroken
from turngate.sanitize import command_line, visible
from turngate_probes.report.view import ACTIONS, JudgedCase, Mark, RemarkLevel, Row, RowFamily, Sign, View

FOLDER = Path(__file__).parent / "html"
MOST_EVIDENCE = 12_000_000  # characters of JSON in the whole page
MOST_PROBLEMS = 20
FEW = 8  # the most columns that have room for full headings
LONGEST_WORD = 1000
_CODE = re.compile(r"`([^`]*)`")

REMARK_SIGNS: dict[RemarkLevel, Sign] = {"error": "fail", "warning": "deviates", "note": "stale"}


def page(view: View) -> str:
    """Render a page. Only its own script and style can run or load, whatever engines wrote."""
    style, script = (_source(name) for name in ("page.css", "page.js"))
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )
    marks = {mark.name: mark for mark in view.marks}
    cells = [cell.state for family in view.families for row in family.rows for cell in row.cells if cell]
    impact_signs = {each.word: each.sign for each in view.counts}
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            view=view,
            gate=view.kind == "gate" and view.report,
            actions_title=ACTIONS,
            policy=policy,
            style=Markup(style),  # noqa: S704 - files of ours
            script=Markup(script),  # noqa: S704 - files of ours
            impact_signs=impact_signs,
            marks=marks,
            started=_started(view),
            few=len(view.columns) <= FEW,
            engines=[(name, list(group)) for name, group in groupby(view.columns, key=lambda column: column.engine)],
            problems=list(_problems(view)),
            remark_sign=lambda remark: "not_run" if remark.judgement == "open" else REMARK_SIGNS[remark.level],
            most_problems=MOST_PROBLEMS,
            counts=[(mark, cells.count(mark.name)) for mark in view.marks],
            noted=_noted(view.families, marks),
            left_out=_left_out(view.families, len(view.columns)),
        )
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "plain": visible,
        "shown": lambda text: _shown(visible(text)),
        "lines": lambda text: _shown(visible(text.strip("\n"), keep="\n\t")),
        "prose": lambda text: Markup(_CODE.sub(r"<code>\1</code>", str(_shown(visible(text))))),  # noqa: S704 - escaped
        "command": lambda argv: _shown(command_line(argv, LONGEST_WORD)),
    }
    return environment


def _shown(text: str) -> Markup:
    return Markup(unbroken(str(escape(text))))  # noqa: S704 - escaped just before


def _source(name: str) -> str:
    return (FOLDER / name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _started(view: View) -> str:
    at = datetime.fromisoformat(view.started_at).astimezone(UTC)
    return f"{at.day} {at:%B %Y, %H:%M} UTC"


def _problems(view: View) -> Iterator[tuple[JudgedCase, str]]:
    """Return the remarks, each with the id of its cell or column (empty: none); a gate has its reasons instead."""
    rows = {row.id: row.n for family in view.families for row in family.rows}
    columns = {suite.name: column.n for suite, column in zip(view.suites, view.columns, strict=False)}
    for remark in view.remarks if view.kind != "gate" else ():
        row, column = rows.get(remark.about), columns.get(remark.subject)
        link = "" if column is None else f"r{column}" if row is None else f"c{row}-{column}"
        yield remark, link


def _left_out(families: tuple[RowFamily, ...], columns: int) -> set[tuple[int, int]]:
    """Choose the cells (by row and column) whose evidence does not fit on the page, failures last."""
    left_out, room = set[tuple[int, int]](), MOST_EVIDENCE
    rows = [row for family in families for row in family.rows]
    for column in range(columns):
        cells = [(row.n, cell) for row in rows if (cell := row.cells[column]) and cell.evidence]
        for number, cell in sorted(cells, key=lambda numbered: numbered[1].state not in ("fail", "excused")):
            size = len(json.dumps(to_builtins(cell.evidence)))
            if size > room:
                left_out.add((number, column))
            else:
                room -= size
    return left_out


def _noted(families: tuple[RowFamily, ...], marks: Mapping[str, Mark]) -> list[Row]:
    """Return the rows with a problem or a caveat; that of a release of which nothing was tested is its verdict's."""
    rows = [row for family in families for row in family.rows]
    signs = [[marks[cell.state].sign if cell else None for cell in row.cells] for row in rows]
    untested = {at for at, column in enumerate(zip(*signs, strict=True)) if set(column) <= {"not_run", None}}
    quiet = ("pass", "unsupported", None)
    return [
        row
        for row, found in zip(rows, signs, strict=True)
        if any(sign not in quiet for at, sign in enumerate(found) if at not in untested)
    ]
