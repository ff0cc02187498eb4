"""Many scenarios, and their report."""

import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.conform.orchestrators.catalogue import CORRECT
from tests.probes.conform.sessions import CLAUDE, CODEX, GOOD, IFLOW, PROCESS, RAN, TALKS, conform, played
from turngate_probes.conform.answered import (
    NO_THIRD_TURN,
    ONE_PROCESS,
)
from turngate_probes.conform.catalogue import NOT_REACHED, scenarios
from turngate_probes.conform.conform_report import Conformance, ScenarioResult, ScenarioRow
from turngate_probes.conform.judge import Evidence
from turngate_probes.conform.session import FEWER_TURNS, ConformSession
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.report.baseline import ExpectedBreach

# the correct orchestrator, which repeats a turn in its session
RETRIES = """
def tried(*said):
    try:
        return turn(*said)
    except (SystemExit, ValueError):
        return turn(*said)


"""
REPLAYS = """
said = [Path(SETTINGS["TURNGATE_PROMPT_FILE"]).read_text("utf-8")]
_, answer = turn(said[0])
for name in ("TURNGATE_REPLY", "TURNGATE_REPLY_2"):
    if name in SETTINGS:
        said += [answer, SETTINGS[name]]
        _, answer = turn("\\n\\n".join(said))
print(json.loads(answer)["final_data"]["answer"])
"""


@pytest.mark.long
def test_results_come_as_they_end_and_are_reported_in_order(tmp_path: Path) -> None:
    """Each is told once."""
    reported: list[ScenarioRow] = []
    chosen = tuple(scenarios()[name] for name in ("two-turns", "three-turns", "no-id"))
    report = ConformSession(GOOD, (CODEX,), chosen, tmp_path, 2).run(Interrupt(), reported.append)
    assert [(row.scenario, row.result) for row in report.results] == [(one.id, ScenarioResult.PASS) for one in chosen]
    assert {row.scenario for row in reported} == {one.id for one in chosen}
    assert (report.verdict, report.exit_code, report.mode) == (Conformance.CONFORMS, 0, "simulated")


@pytest.mark.long
def test_a_driver_says_how_many_turns_it_has(tmp_path: Path) -> None:
    """With one, the first turn misbehaves, and what needs a reply is skipped."""
    driver = tmp_path / "driver.py"
    driver.write_text(CORRECT["python"].read_text().replace("TURNGATE_REPLY", "NO_REPLY"))
    chosen = tuple(scenarios()[name] for name in ("two-turns", "crash", "fresh-session", "three-turns"))
    session = ConformSession((sys.executable, str(driver)), (CODEX,), chosen, tmp_path / "r", 2, turns=1)
    report = session.run(Interrupt(), lambda _: None)
    skipped = (ScenarioResult.SKIPPED, FEWER_TURNS.format(turns=1), 0)
    assert [(row.result, row.detail, len(row.calls)) for row in report.results] == [
        (ScenarioResult.PASS, "", 1),
        (ScenarioResult.PASS, "", 1),
        skipped,
        skipped,
    ]


@pytest.mark.long
def test_an_autonomous_orchestrator_may_let_the_engine_act(tmp_path: Path) -> None:
    """In a repository, the engine needs no option to run."""
    driver = tmp_path / "driver.py"
    driver.write_text(CORRECT["python"].read_text().replace('"--skip-git-repo-check"', '"--yolo"'))
    chosen, command = (scenarios()["two-turns"],), (sys.executable, str(driver))
    session = ConformSession(command, (CODEX,), chosen, tmp_path / "1", 1, autonomous=True, git=True)
    assert session.run(Interrupt(), lambda _: None).verdict is Conformance.CONFORMS
    session = ConformSession(command, (CODEX,), chosen, tmp_path / "2", 1)
    (row,) = session.run(Interrupt(), lambda _: None).results
    assert {breach.rule for breach in row.breaches} == {"orchestrator.completes", "orchestrator.no-auto-approval"}
    assert "Not inside a trusted directory" in row.breaches[0].detail


@pytest.mark.long
def test_a_failed_turn_fails_again_when_it_is_repeated(tmp_path: Path) -> None:
    """An orchestrator that retries in the same session conforms."""
    source = CORRECT["python"].read_text().replace("def main()", RETRIES + "def main()").replace("= turn(", "= tried(")
    driver = tmp_path / "driver.py"
    driver.write_text(source)
    names = ("crash", "failing-backend", "exit-1-after-answer", "exit-0-without-end", "no-answer")
    report = conform(tmp_path / "r", (sys.executable, str(driver)), *names)
    assert [(row.result, len(row.calls)) for row in report.results] == [(ScenarioResult.PASS, 3)] * len(names)


@pytest.mark.long
def test_an_orchestrator_may_send_the_whole_conversation(tmp_path: Path) -> None:
    """Each turn is a fresh session whose prompt is the history, so no session can be lost."""
    source = CORRECT["python"].read_text()
    source = source.replace('["resume", session] if session else []', "[]").replace(
        "session not in (None, ids[0])", "False"
    )
    driver = tmp_path / "driver.py"
    driver.write_text(source[: source.index("def main()")] + REPLAYS)
    names = ("two-turns", "three-turns", "fresh-session", "lost-session", "no-id", "renamed-session", "crash")
    report = conform(tmp_path / "r", (sys.executable, str(driver)), *names)
    failing = [row for row in report.results if row.scenario == "no-id"]
    assert [(row.scenario, row.breaches) for row in report.results if row not in failing] == [
        (name, ()) for name in names if name != "no-id"
    ]


@pytest.mark.long
def test_what_can_not_be_played_is_skipped(tmp_path: Path) -> None:
    """Because of the engine, or because the driver has no second reply."""
    chosen = (scenarios()["long-line"],)
    turns_only = replace(IFLOW, sticky=replace(IFLOW.sticky, transport="none"))
    report = ConformSession(GOOD, (turns_only,), chosen, tmp_path / "1", 1).run(Interrupt(), lambda _: None)
    assert (report.results[0].result, report.exit_code) == (ScenarioResult.SKIPPED, 2)
    driver = tmp_path / "driver.py"
    driver.write_text(
        CORRECT["python"].read_text().replace('("TURNGATE_REPLY", "TURNGATE_REPLY_2")', '("TURNGATE_REPLY",)')
    )
    report = conform(tmp_path / "2", (sys.executable, str(driver)), "three-turns")
    assert (report.results[0].result, report.results[0].detail) == (ScenarioResult.SKIPPED, NO_THIRD_TURN)
    # it would resume a new id, but has no third turn to show it
    driver.write_text(driver.read_text().replace("session not in (None, ids[0])", "False"))
    driver.write_text(driver.read_text().replace('json.loads(answer)["final_data"]["answer"]', "answer"))
    report = conform(tmp_path / "3", (sys.executable, str(driver)), "renamed-session")
    assert (report.results[0].result, report.results[0].detail) == (ScenarioResult.SKIPPED, NO_THIRD_TURN)


def test_a_baseline_excuses_a_breach(tmp_path: Path) -> None:
    """An entry that excuses nothing is stale if its scenario was played."""
    driver = tmp_path / "driver.py"
    driver.write_text(CORRECT["python"].read_text().replace("session not in (None, ids[0])", "False"))
    used = ExpectedBreach("orchestrator.notices-fresh-session", "known")
    report = conform(
        tmp_path / "r",
        (sys.executable, str(driver)),
        "fresh-session",
        expected=(
            used,
            ExpectedBreach("orchestrator.stdin", "r"),
            ExpectedBreach("orchestrator.stdin", "r", scenario="fresh-session"),
        ),
    )
    assert (report.results[0].result, report.results[0].breaches[0].excused) == (ScenarioResult.EXCUSED, "known")
    assert (report.verdict, report.stale) == (Conformance.CONFORMS, ("orchestrator.stdin fresh-session",))


def test_one_job_keeps_the_order(tmp_path: Path) -> None:
    """Results come at once; several jobs begin with what takes longest."""
    for jobs, first in ((1, "crash"), (2, "slow-answer")):
        started = played(tmp_path / str(jobs), Evidence(TALKS, (RAN,), ()), "crash", "slow-answer", jobs=jobs)
        assert (started[0], len(started)) == (first, 2)


def test_after_an_interrupt_the_rest_is_unanswered(tmp_path: Path) -> None:
    """What is known is reported, and no report takes the rest for a success."""
    interrupt = Interrupt()
    interrupt.set()
    chosen = (scenarios()["two-turns"],)
    report = ConformSession(GOOD, (CODEX,), chosen, tmp_path, 1).run(interrupt, lambda _: None)
    assert [(row.result, row.detail) for row in report.results] == [(ScenarioResult.UNANSWERED, "interrupted")]
    assert (report.verdict, report.interrupted, report.exit_code) == (Conformance.UNANSWERED, True, 130)


@pytest.mark.long
def test_one_process_for_all_turns(tmp_path: Path) -> None:
    """It plays most scenarios; what only a process for one turn plays is skipped, never failed."""
    driver = tmp_path / "driver.py"
    driver.write_text(PROCESS)
    names = ("two-turns", "prompt-with-newlines", "failing-backend", "exit-1-after-answer")
    chosen = tuple(scenarios()[name] for name in names)
    command = (sys.executable, str(driver))
    report = ConformSession(command, (CLAUDE,), chosen, tmp_path / "r", 2).run(Interrupt(), lambda _: None)
    assert [(row.result, row.detail, row.breaches) for row in report.results] == [
        *[(ScenarioResult.PASS, "", ())] * 3,
        (ScenarioResult.SKIPPED, ONE_PROCESS, ()),
    ]


def test_one_cause_is_one_finding(tmp_path: Path) -> None:
    """An argument that every call gets is named once; what the engine never ran is neither broken nor conforms."""
    driver = tmp_path / "driver.py"
    driver.write_text(CORRECT["python"].read_text().replace('["codex", "exec",', '["codex", "exec", "--full-auto",'))
    report = conform(tmp_path / "r", (sys.executable, str(driver)), "crash", "two-turns", "prompt-with-emoji")
    rows = {row.scenario: row for row in report.results}
    assert [breach.rule for row in report.results for breach in row.breaches] == ["orchestrator.arguments"]
    assert {name: row.detail for name, row in rows.items() if name != "two-turns"} == {
        "crash": NOT_REACHED,
        "prompt-with-emoji": NOT_REACHED,
    }
    assert report.verdict is Conformance.BROKEN


@pytest.mark.long
def test_a_conversation_that_succeeds_stops_nothing(tmp_path: Path) -> None:
    """Whatever other rule it breaks, the other scenarios say something new."""
    driver = tmp_path / "driver.py"
    driver.write_text(CORRECT["python"].read_text().replace('["codex", "exec",', '["codex", "--yolo", "exec",'))
    report = conform(tmp_path / "r", (sys.executable, str(driver)), "two-turns", "crash")
    assert [[breach.rule for breach in row.breaches] for row in report.results] == [
        ["orchestrator.no-auto-approval"]
    ] * 2
