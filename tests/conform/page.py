"""docs/orchestrators.md, made of what was measured in docs/orchestrators.json."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.conform.measured import Breach, Measured
from tests.conform.real import ORCHESTRATORS, Orchestrator

DOCS = Path(__file__).parents[2] / "docs"
PAGE, KEPT = DOCS / "orchestrators.md", DOCS / "orchestrators.json"
HEAD = """# Released orchestrators

Before you build on a client library, see what it leaves to you: these are the rules that released packages break, as
`turngate conform` found. A caller can often make up for them:

| scenarios | what a caller does |
|---|---|
| `fresh-session`, `renamed-session` | compares the session id of each turn with the one that it resumed |
| `no-id`, `id-on-stderr`, `late-id` | checks that there is a session id |
| `no-answer`, `blank-answer` | checks that the answer is not blank |
| `exits-unread`, `prompt-200-kb` | keeps prompts below the limit that a section names |
| `prompt-with-dash`, `reply-is-a-flag` | passes no prompt that starts with a dash |
| all that hang, `launcher`, `background-child` | at its own deadline, ends the process group that it started |

The sections below name the fields to check, and what else helps. `turngate conform --scenario NAME --show` says what
happens in a scenario, and which rule it tests. A scenario is skipped if the engine or the form of its output can't play
it, if it needs a reply and the orchestrator has only one turn, or if the driver's reply depends on no question. To
measure a package again, run a command such as `make orchestrators ARGS=codex_sdk` in a checkout.

| orchestrator | engine | measured | pass | fail | skipped |
|---|---|---|---|---|---|
"""
UNTESTED = """
`ai-sdk-provider-gemini-cli` (npm) 2.0.1 can't be tested in this way, because it starts no engine: its `dist/index.mjs`
calls `@google/gemini-cli-core`.
"""
MANY = 20  # scenarios that a line doesn't name
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
    yield "| scenarios | what was seen |\n|---|---|"
    alike = dict[str, list[Breach]]()
    for breach in row.breaches:
        alike.setdefault(breach.seen, []).append(breach)
    for seen, breaches in alike.items():
        one_line = seen.replace("|", "\\|").replace("\n", " ")
        yield f"| {_listed(one.scenario for one in breaches)} | {one_line} |"
    yield ""


def _notes(one: Orchestrator) -> Iterator[str]:
    """Yield how its driver differs from others."""
    if one.turns == 1:
        yield "It keeps no conversation, so it has one turn, and scenarios that need a reply are skipped."
    if one.autonomous:
        yield "It always lets the engine act without asking, so it is measured with `--autonomous`."
    if one.git:
        yield "It resumes only in a git repository, so it is measured with `--git`."


def _listed(names: Iterable[str]) -> str:
    different = tuple(dict.fromkeys(names))
    if len(different) > MANY:
        return f"{len(different)} scenarios"
    return ", ".join(f"`{name}`" for name in different)


def _named(row: Measured) -> str:
    version = row.package.rpartition("@")[2].rpartition("=")[2]
    return f"{_KNOWN[row.name].title} {version}".strip()
