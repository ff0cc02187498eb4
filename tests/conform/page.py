"""docs/orchestrators.md, made of what was measured in docs/orchestrators.json."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.conform.measured import Measured
from tests.conform.real import ORCHESTRATORS, Orchestrator
from turngate_probes.conform.catalogue import rules, scenarios

DOCS = Path(__file__).parents[2] / "docs"
PAGE, KEPT = DOCS / "orchestrators.md", DOCS / "orchestrators.json"
HEAD = """# Released orchestrators

What `turngate conform` sees when it runs orchestrators from their released packages. The drivers are in
`tests/conform/drivers`, and the expected results in `tests/conform/baselines`. `make orchestrators` measures all of
them again and renders this page; `make orchestrators ARGS=codex_sdk` measures one of them.

A client library is not a whole orchestrator: where the table says that it breaks a rule, its caller can often check the
case. A scenario is skipped if the engine, the form of its output, or a process for several turns can't play it, or if
it needs a reply and the orchestrator has only one turn.

| orchestrator | engine | measured | pass | fail | skipped |
|---|---|---|---|---|---|
"""
UNTESTED = """
One package can't be tested in this way:

| package | why |
|---|---|
| `ai-sdk-provider-gemini-cli` (npm) 2.0.1 | It starts no engine: `dist/index.mjs` calls `@google/gemini-cli-core`. |
"""
_KNOWN = {one.name: one for one in ORCHESTRATORS}


def rendered(rows: Iterable[Measured]) -> str:
    """Return the page as Markdown."""
    listed = tuple(rows)
    sections = ["\n".join(_details(row)) for row in listed]
    table = HEAD + "\n".join(map(_line, listed)) + "\n" + UNTESTED
    return table + "\n" + "\n".join(filter(None, sections)).rstrip() + "\n"


def _line(row: Measured) -> str:
    return f"| {_named(row)} | {row.engine} {row.release} | {row.day} | {row.passed} | {row.failed} | {row.skipped} |"


def _details(row: Measured) -> Iterator[str]:
    """Return a section with what was seen in each scenario that is not passed; none if all are."""
    if not row.breaches:
        return
    yield f"## {_named(row)}\n"
    if notes := " ".join(_notes(_KNOWN[row.name])):
        yield f"{notes}\n"
    yield "| scenario | rule | what was seen |\n|---|---|---|"
    for breach in row.breaches:
        seen = breach.seen.replace("|", "\\|").replace("\n", " ")
        scenario, rule = scenarios()[breach.scenario].sentence, rules()[breach.rule].sentence
        yield f"| {breach.scenario}: {scenario} | {rule} | {seen} |"
    yield ""


def _notes(one: Orchestrator) -> Iterator[str]:
    """Yield how its driver differs from others."""
    if one.turns == 1:
        yield "It keeps no conversation, so it has one turn, and scenarios that need a reply are skipped."
    if one.autonomous:
        yield "It always lets the engine act without asking, so it is measured with `--autonomous`."
    if one.git:
        yield "It resumes only in a git repository, so it is measured with `--git`."


def _named(row: Measured) -> str:
    version = row.package.rpartition("@")[2].rpartition("=")[2]
    return f"{_KNOWN[row.name].title} {version}".strip()
