"""Correct orchestrators keep every rule, and each wrong one breaks its own."""

import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeGuard

import pytest

from tests.conform.orchestrators.catalogue import CORRECT, STREAM, TEXT, Right, Wrong, right, wrong
from turngate import load_contract
from turngate_probes.conform.catalogue import rules, scenarios
from turngate_probes.conform.conform_report import Conformance, ConformReport, ScenarioResult
from turngate_probes.conform.session import ConformSession
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.releases.pins import pinned_version

pytestmark = [pytest.mark.long, pytest.mark.nightly]
CODEX = "0.169.0"
RUN = {"python": sys.executable, "node": "node", "posix-shell": "sh"}
COMMANDS = {name: (RUN[name], str(file)) for name, file in CORRECT.items()}
COMMANDS["text"] = (sys.executable, str(TEXT))
# what no process for one turn plays, or what nothing shows of a driver that replies to everything, and what the plain
# text of Codex can't show
UNSEEN = {"late-text", "own-turn"}
WITHOUT_RECORDS = {"late-id", "long-line", "unknown-records", "several-messages", "second-result"}
# what every wrong orchestrator plays, besides the scenarios in which its mistake shows
COMMON = ("two-turns", "two-conversations", "fresh-session", "lost-session", "no-id", "text-imitates-records", "crash")


# their waits overlap, and a small machine still runs few engines at a time
AT_ONCE, JOBS = 3, 2
NOT_REAL = dict[str, Path]()
Reports = dict[str, Future[ConformReport]]


def conform(
    folder: Path,
    command: tuple[str, ...],
    chosen: tuple[str, ...],
    engine: tuple[str, str | None] = ("codex", CODEX),
    real: Mapping[str, Path] = NOT_REAL,
) -> ConformReport:
    """Return the report on an orchestrator."""
    played = tuple(scenarios()[name] for name in dict.fromkeys(chosen))
    session = ConformSession(command, (load_contract(*engine),), played, folder / "runs", JOBS, real=real)
    return session.run(Interrupt(), lambda _: None)


def conform_changed(
    folder: Path, changed: Wrong | Right, chosen: tuple[str, ...], real: Mapping[str, Path] = NOT_REAL
) -> ConformReport:
    """Return the report on a changed orchestrator."""
    file = folder / f"{changed.id}{changed.base.suffix}"
    file.write_text(changed.source(), "utf-8")
    engine = changed.engine, pinned_version(changed.engine)
    return conform(folder, (RUN.get(changed.of, sys.executable), str(file)), chosen, engine, real)


def conform_wrong(folder: Path, mistake: Wrong) -> ConformReport:
    """Return the report on a wrong orchestrator."""
    return conform_changed(folder, mistake, (*mistake.scenarios, *(() if mistake.alone else COMMON)))


def waits(mistake: Wrong) -> float:
    """Return the shortest deadline of its scenarios, which is below the usual one where a deadline is waited for."""
    return min(scenarios()[name].deadline for name in mistake.scenarios)


@pytest.fixture(scope="module", name="reports")
def _reports(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reports]:
    """Run the selected orchestrators, a few at once, and first those that wait longest."""
    asked = {item.callspec.id for item in request.session.items if _asks_for_report(item)}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        reports = {
            name: pool.submit(conform, tmp_path_factory.mktemp(name), command, tuple(scenarios()))
            for name, command in COMMANDS.items()
            if name in asked
        }
        yield reports | {
            mistake.id: pool.submit(conform_wrong, tmp_path_factory.mktemp(mistake.id), mistake)
            for mistake in sorted(wrong(), key=waits)
            if mistake.id in asked
        }


def _asks_for_report(item: pytest.Item) -> TypeGuard[pytest.Function]:
    return isinstance(item, pytest.Function) and item.path == Path(__file__) and "reports" in item.fixturenames


@pytest.mark.parametrize("name", COMMANDS)
def test_a_correct_orchestrator_keeps_every_rule(reports: Reports, name: str) -> None:
    """It passes all scenarios that its output can show."""
    report = reports[name].result()
    skipped = UNSEEN | (WITHOUT_RECORDS if name == "text" else set())
    wanted = dict.fromkeys(skipped, ScenarioResult.SKIPPED)
    assert [
        (row.scenario, row.breaches, row.detail)
        for row in report.results
        if row.result is not wanted.get(row.scenario, ScenarioResult.PASS)
    ] == []
    assert (len(report.results), report.verdict, report.exit_code) == (len(scenarios()), Conformance.CONFORMS, 0)


@pytest.mark.parametrize("mistake", wrong(), ids=lambda mistake: mistake.id)
def test_a_wrong_orchestrator_breaks_its_rule(reports: Reports, mistake: Wrong) -> None:
    """It breaks that rule in its scenarios, and otherwise only what follows from its mistake."""
    report = reports[mistake.id].result()
    broken = {row.scenario: {breach.rule: breach.detail for breach in row.breaches} for row in report.results}
    for scenario in mistake.scenarios:
        assert mistake.breaks in broken[scenario], (scenario, broken[scenario])
    assert {rule for row in broken.values() for rule in row} - {mistake.breaks, *mistake.also} == set(), broken
    assert [row.detail for row in report.results if row.result is ScenarioResult.UNANSWERED] == []


@pytest.mark.parametrize("habit", right(), ids=lambda habit: habit.id)
def test_another_habit_breaks_nothing(tmp_path: Path, habit: Right) -> None:
    """What the real CLI accepts is no fault: calls that ask, an id of its own, another attempt, other output."""
    report = conform_changed(tmp_path, habit, habit.scenarios)
    assert [row for row in report.results if row.result is not ScenarioResult.PASS] == []


@pytest.mark.parametrize(
    "engine, skipped", [(("claude", "2.1.330"), {"several-messages"}), (("gemini", "0.61.0"), set())]
)
def test_a_correct_orchestrator_may_choose_another_output(
    tmp_path: Path, engine: tuple[str, str], skipped: set[str]
) -> None:
    """Claude Code and Gemini CLI print one record per line then, and play what their usual output can't."""
    report = conform(tmp_path, (sys.executable, str(STREAM)), tuple(scenarios()), engine)
    others = [(row.scenario, row.breaches) for row in report.results if row.result is not ScenarioResult.PASS]
    assert dict(others) == dict.fromkeys(skipped | UNSEEN, ())


def test_every_rule_has_a_wrong_orchestrator() -> None:
    """None of the rules is untested, and no two orchestrators have one name."""
    names = [*COMMANDS, *(mistake.id for mistake in wrong())]
    assert len(names) == len(set(names))
    assert {mistake.breaks for mistake in wrong()} == set(rules())
