"""The page about released orchestrators."""

from collections.abc import Iterator, Mapping

from tests.conform.real import Orchestrator
from turngate_probes.conform.catalogue import rules, scenarios
from turngate_probes.conform.report import ConformReport, Result

HEAD = """# Released orchestrators

What `turngate conform` sees when it runs orchestrators from their released packages. The drivers are in
`tests/conform/drivers`, and the expected results in `tests/conform/baselines`. `make orchestrators` measures all of
them again and renders this page.

A client library is not a whole orchestrator: where the table says that it breaks a rule, its caller can often check the
case. A scenario is skipped if the engine, or a process for several turns, can't play it.

| orchestrator | engine | measured | pass | fail | skipped |
|---|---|---|---|---|---|
"""


def rendered(measured: Mapping[Orchestrator, ConformReport]) -> str:
    """Return the page as Markdown."""
    rows = [_row(one, report) for one, report in measured.items()]
    sections = ["\n".join(_details(one, report)) for one, report in measured.items()]
    return HEAD + "\n".join(rows) + "\n\n" + "\n".join(filter(None, sections)).rstrip() + "\n"


def _row(one: Orchestrator, report: ConformReport) -> str:
    counts = [sum(row.result in results for row in report.results) for results in _GROUPS]
    told = " | ".join(map(str, counts))
    return f"| {_named(one)} | {one.engine} {one.release} | {report.started_at[:10]} | {told} |"


_GROUPS = ((Result.PASS,), (Result.FAIL, Result.EXCUSED, Result.UNANSWERED), (Result.SKIPPED,))


def _details(one: Orchestrator, report: ConformReport) -> Iterator[str]:
    """Return a section with what was seen in each scenario that is not passed; none if all are."""
    failed = [row for row in report.results if row.breaches]
    if not failed:
        return
    yield f"## {_named(one)}\n"
    yield "| scenario | rule | what was seen |\n|---|---|---|"
    for row in failed:
        for breach in row.breaches:
            seen = (breach.excused or breach.detail).replace("|", "\\|").replace("\n", " ")
            yield f"| {row.scenario}: {scenarios()[row.scenario].sentence} | {rules()[breach.rule].sentence} | {seen} |"
    yield ""


def _named(one: Orchestrator) -> str:
    version = one.package.rpartition("@")[2].rpartition("=")[2]
    return f"{one.title} {version}".strip()
