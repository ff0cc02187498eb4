"""Many scenarios, and their report."""

import json
import sys
from pathlib import Path
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from tests.conform.orchestrators.catalogue import CORRECT
from turngate import load_contract
from turngate_probes.conform.calls import EngineCall, Started
from turngate_probes.conform.catalogue import Scenario, scenarios
from turngate_probes.conform.conform_report import Conformance, ConformReport, ScenarioResult, ScenarioRow
from turngate_probes.conform.judge import Evidence, Ran
from turngate_probes.conform.plan import Conversation
from turngate_probes.conform.session import (
    FEWER_TURNS,
    LONG_ARGUMENT,
    NO_CALL,
    NO_FILE,
    NO_THIRD_TURN,
    ONE_PROCESS,
    PLAIN_TEXT,
    TOO_LONG,
    ConformSession,
)
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.report.baseline import ExpectedBreach

CODEX, IFLOW = load_contract("codex", "0.169.0"), load_contract("iflow", "0.5.19")
CLAUDE = load_contract("claude", "2.1.330")
# one process of Claude Code, which gets a message for each turn
PROCESS = """
import json, os, subprocess, sys
argv = ["claude", "--print", "--verbose", "--input-format", "stream-json", "--output-format", "stream-json"]
pipe, settings = subprocess.PIPE, os.environ
with subprocess.Popen(argv, cwd=settings["TURNGATE_WORKSPACE"], stdin=pipe, stdout=pipe) as engine:
    for name in ("TURNGATE_PROMPT", "TURNGATE_REPLY"):
        message = {"type": "user", "message": {"role": "user", "content": settings[name]}}
        engine.stdin.write(json.dumps(message).encode() + b"\\n")
        engine.stdin.flush()
        record = next(record for record in map(json.loads, engine.stdout) if record["type"] == "result")
        if record["is_error"]:
            sys.exit("the turn failed")
    engine.stdin.close()
print(record["result"])
"""
# and another process for the last turn, which may be for one turn only
ONE_TURN = """
argv = ["claude", "--print", "--output-format", "json", "--resume", record["session_id"], settings["TURNGATE_REPLY_2"]]
print(subprocess.check_output(argv, cwd=settings["TURNGATE_WORKSPACE"], stdin=subprocess.DEVNULL, text=True))
"""
RESUMED = """
argv += ["--resume", record["session_id"]]
message = {"type": "user", "message": {"role": "user", "content": settings["TURNGATE_REPLY_2"]}}
said = json.dumps(message).encode() + b"\\n"
print(subprocess.run(argv, cwd=settings["TURNGATE_WORKSPACE"], input=said, stdout=pipe, check=True).stdout.decode())
"""
GOOD = (sys.executable, str(CORRECT["python"]))
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
IDLE = (sys.executable, "-c", "raise SystemExit(1)")
TALKS = scenarios()["two-turns"]
BEGUN = Started(1, (), "", (), "pipe", 0.0, kind="turn")
RAN = Ran(Conversation("a", ("first", "second"), "amber"), 1, "", "", 0.0, ())


def conform(
    root: Path, command: tuple[str, ...], *names: str, expected: tuple[ExpectedBreach, ...] = ()
) -> ConformReport:
    """Run scenarios with Codex."""
    return ConformSession(command, (CODEX,), tuple(scenarios()[name] for name in names), root, 2, expected).run(
        Interrupt(), lambda _: None
    )


def test_results_come_as_they_end_and_are_reported_in_order(tmp_path: Path) -> None:
    """Each is told once."""
    reported: list[ScenarioRow] = []
    chosen = tuple(scenarios()[name] for name in ("two-turns", "three-turns", "no-id"))
    report = ConformSession(GOOD, (CODEX,), chosen, tmp_path, 2).run(Interrupt(), reported.append)
    assert [(row.scenario, row.result) for row in report.results] == [(one.id, ScenarioResult.PASS) for one in chosen]
    assert {row.scenario for row in reported} == {one.id for one in chosen}
    assert (report.verdict, report.exit_code, report.mode) == (Conformance.CONFORMS, 0, "simulated")


def test_without_a_call_nothing_is_answered(tmp_path: Path) -> None:
    """Not even that a conversation failed, as it should; the hint names the variable of the engine."""
    report = conform(tmp_path, IDLE, "lost-session", "prompt-200-kb")
    hint = NO_CALL.format(variable="TURNGATE_ENGINE_CODEX")
    assert [(row.result, row.detail) for row in report.results] == [
        (ScenarioResult.UNANSWERED, f"{hint} (it exited with 1)"),
        (ScenarioResult.UNANSWERED, f"{hint} (it exited with 1)"),
    ]
    assert (report.verdict, report.exit_code) == (Conformance.UNANSWERED, 2)


def test_a_prompt_that_fits_no_argument_is_broken_not_unanswered(tmp_path: Path) -> None:
    """The same orchestrator runs a short prompt. A driver that looks for the variable is told where the prompt is."""
    driver = tmp_path / "driver.py"
    driver.write_text(CORRECT["python"].read_text().replace('*resume, "-"]', '*resume, "--", text]'))
    report = conform(tmp_path / "1", (sys.executable, str(driver)), "prompt-200-kb")
    ((breach,),) = [row.breaches for row in report.results]
    assert (breach.rule, breach.detail.startswith(TOO_LONG + LONG_ARGUMENT)) == ("orchestrator.text-whole", True)
    assert "Argument list too long" in breach.detail
    source = CORRECT["python"].read_text()
    driver.write_text(
        source.replace("    resume =", "    assert len(text) < 99999, 'at most 99999 characters'\n    resume =")
    )
    report = conform(tmp_path / "3", (sys.executable, str(driver)), "prompt-200-kb")
    ((breach,),) = [row.breaches for row in report.results]
    assert breach.detail == f"{TOO_LONG} (it exited with 1: 'AssertionError: at most 99999 characters')"
    driver.write_text("import os; os.environ['TURNGATE_PROMPT']")
    report = conform(tmp_path / "2", (sys.executable, str(driver)), "prompt-200-kb")
    assert report.results[0].detail.startswith(NO_FILE)


@pytest.mark.parametrize("last", [RESUMED, ONE_TURN], ids=["process", "turn"])
def test_two_processes_can_have_three_turns(tmp_path: Path, last: str) -> None:
    """Turns are not counted by processes, one of which had two. Its session id is one that may be resumed."""
    chosen, command = (scenarios()["three-turns"],), (sys.executable, "-c", PROCESS + last)
    report = ConformSession(command, (CLAUDE,), chosen, tmp_path, 1).run(Interrupt(), lambda _: None)
    ((result, detail, calls),) = [(row.result, row.detail, len(row.calls)) for row in report.results]
    assert (result, detail, calls) == (ScenarioResult.PASS, "", 2)


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


def test_what_a_plain_text_cannot_show_is_skipped(tmp_path: Path) -> None:
    """The contract describes only output with records. A turn without an answer is one without text."""
    driver = tmp_path / "driver.sh"
    driver.write_text(
        'cd "$TURNGATE_WORKSPACE" && answer=$(claude --print "$TURNGATE_PROMPT") && test -n "$answer" && echo "$answer"'
    )
    chosen = tuple(scenarios()[name] for name in ("two-turns", "no-answer", "exit-0-without-end"))
    session = ConformSession(("sh", str(driver)), (CLAUDE,), chosen, tmp_path / "r", 2, turns=1)
    report = session.run(Interrupt(), lambda _: None)
    assert [(row.result, row.detail) for row in report.results] == [
        (ScenarioResult.PASS, ""),
        (ScenarioResult.PASS, ""),
        (ScenarioResult.SKIPPED, PLAIN_TEXT),
    ]


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


def test_a_driver_that_fails_at_once_is_quoted(tmp_path: Path) -> None:
    """Its last line says what to correct."""
    report = conform(tmp_path, (sys.executable, "-c", "import no_such_module"), "two-turns")
    assert report.results[0].detail.endswith(
        "(it exited with 1: \"ModuleNotFoundError: No module named 'no_such_module'\")"
    )


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
    """An entry that excuses nothing is stale."""
    driver = tmp_path / "driver.py"
    driver.write_text(CORRECT["python"].read_text().replace("session not in (None, ids[0])", "False"))
    used = ExpectedBreach("orchestrator.notices-fresh-session", "known")
    report = conform(
        tmp_path / "r",
        (sys.executable, str(driver)),
        "fresh-session",
        expected=(used, ExpectedBreach("orchestrator.stdin", "r")),
    )
    assert (report.results[0].result, report.results[0].breaches[0].excused) == (ScenarioResult.EXCUSED, "known")
    assert (report.verdict, report.stale) == (Conformance.CONFORMS, ("orchestrator.stdin",))


def test_one_job_keeps_the_order(tmp_path: Path) -> None:
    """Results come at once; several jobs begin with what takes longest."""
    for jobs, first in ((1, "two-turns"), (2, "slow-answer")):
        started = played(tmp_path / str(jobs), Evidence(TALKS, "", (RAN,), ()), "two-turns", "slow-answer", jobs=jobs)
        assert (started[0], len(started)) == (first, 2)


def test_only_a_slow_machine_is_given_more_time(tmp_path: Path) -> None:
    """A hang is repeated if the reply had not arrived; a process for several turns is one call, whatever it got."""
    hang = scenarios()["hang-before-answer"]
    for said, times in ((b"first", 2), (b"first second", 1)):
        begun = Started(1, (), "", (), "pipe", 0.0, kind="process")
        message = json.dumps({"text": said.decode()}).encode()
        call = EngineCall(1, begun, None, message, stdin_closed=False, stdout=b"", stderr="", signals=(), handle=None)
        evidence = Evidence(hang, "", (replace(RAN, seconds=hang.deadline),), (call,))
        assert played(tmp_path, evidence, hang.id) == [hang.id] * times


def test_a_slow_command_that_may_have_canceled_is_given_more_time(tmp_path: Path) -> None:
    """It is repeated if it took as long as a deadline, and its last turn did not; else it is known what it did."""
    canceled = scenarios()["canceled"]
    for seconds, ended, times in ((13.0, 4.0, 2), (13.0, 10.0, 1), (4.0, 3.0, 1)):
        call = EngineCall(1, BEGUN, None, b"second", stdin_closed=True, stdout=b"", stderr="", signals=(), handle=None)
        evidence = Evidence(canceled, "", (replace(RAN, seconds=seconds, ended=ended),), (call,))
        assert played(tmp_path, evidence, canceled.id) == [canceled.id] * times


def test_a_command_that_was_ended_early_is_given_more_time(tmp_path: Path) -> None:
    """It must have had its deadline and its grace since the engine's last sign; one that exits is not repeated."""
    hang = scenarios()["hang-before-answer"]
    enough = hang.deadline + hang.grace
    for code, idle, times in ((None, enough - 1, 2), (None, enough + 1, 1), (0, 0.0, 1)):
        evidence = Evidence(hang, "", (replace(RAN, exit_code=code, idle=idle),), ())
        assert played(tmp_path, evidence, hang.id) == [hang.id] * times


def played(root: Path, evidence: Evidence, *names: str, jobs: int = 1) -> list[str]:
    """Return the scenarios that a session plays, if each run gives the same evidence."""
    started = list[str]()

    def play(scenario: Scenario, *_: object, **__: object) -> Evidence:
        started.append(scenario.id)
        return evidence

    session = ConformSession(IDLE, (CODEX,), tuple(scenarios()[name] for name in names), root, jobs)
    with patch("turngate_probes.conform.session.play", play):
        session.run(Interrupt(), lambda _: None)
    return started


def test_an_interrupt_leaves_out_the_rest(tmp_path: Path) -> None:
    """What is known is reported."""
    interrupt = Interrupt()
    interrupt.set()
    chosen = (scenarios()["two-turns"],)
    report = ConformSession(GOOD, (CODEX,), chosen, tmp_path, 1).run(interrupt, lambda _: None)
    assert (report.results, report.interrupted, report.exit_code) == ((), True, 130)


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
