"""docs/orchestrators.md, made of what was measured in docs/orchestrators.json."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.conform.measured import Measured
from tests.conform.real import ORCHESTRATORS
from turngate_probes.conform.catalogue import rules, scenarios

DOCS = Path(__file__).parents[2] / "docs"
PAGE, KEPT = DOCS / "orchestrators.md", DOCS / "orchestrators.json"
HEAD = """# Released orchestrators

What `turngate conform` sees when it runs orchestrators from their released packages. The drivers are in
`tests/conform/drivers`, and the expected results in `tests/conform/baselines`. `make orchestrators` measures all of
them again and renders this page; `make orchestrators ARGS=codex_sdk` measures one of them.

A client library is not a whole orchestrator: where the table says that it breaks a rule, its caller can often check the
case. A scenario is skipped if the engine, or a process for several turns, can't play it.

| orchestrator | engine | measured | pass | fail | skipped |
|---|---|---|---|---|---|
"""
_TITLES = {one.name: one.title for one in ORCHESTRATORS}


def rendered(rows: Iterable[Measured]) -> str:
    """Return the page as Markdown."""
    listed = tuple(rows)
    sections = ["\n".join(_details(row)) for row in listed]
    return HEAD + "\n".join(map(_line, listed)) + "\n\n" + "\n".join(filter(None, sections)).rstrip() + "\n"


def _line(row: Measured) -> str:
    return f"| {_named(row)} | {row.engine} {row.release} | {row.day} | {row.passed} | {row.failed} | {row.skipped} |"


def _details(row: Measured) -> Iterator[str]:
    """Return a section with what was seen in each scenario that is not passed; none if all are."""
    if not row.breaches:
        return
    yield f"## {_named(row)}\n"
    yield "| scenario | rule | what was seen |\n|---|---|---|"
    for breach in row.breaches:
        seen = breach.seen.replace("|", "\\|").replace("\n", " ")
        scenario, rule = scenarios()[breach.scenario].sentence, rules()[breach.rule].sentence
        yield f"| {breach.scenario}: {scenario} | {rule} | {seen} |"
    yield ""


def _named(row: Measured) -> str:
    version = row.package.rpartition("@")[2].rpartition("=")[2]
    return f"{_TITLES[row.name]} {version}".strip()
