"""How often a scenario runs, and what its runs come to."""

import json
import os
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.conform.orchestrators.catalogue import CORRECT
from tests.probes.conform.sessions import BEGUN, CODEX, RAN, TALKS, conform
from turngate_probes.conform.answered import LONG_ARGUMENT, NO_FILE, REPLIES_ANYWAY, TOO_LONG, unanswered
from turngate_probes.conform.calls import CallEnd, EngineCall, Started
from turngate_probes.conform.catalogue import Scenario, scenarios
from turngate_probes.conform.conform_report import ScenarioResult
from turngate_probes.conform.judge import Evidence
from turngate_probes.conform.outcome import outcome


def attempts(scenario: Scenario, evidence: Evidence) -> list[str]:
    """Return the names of the runs of a scenario, if each gives the same evidence."""
    made = list[str]()

    def attempt(_: Scenario, name: str) -> Evidence:
        made.append(name)
        return evidence

    outcome(scenario, CODEX, attempt)
    return made


def test_only_a_slow_machine_is_given_more_time() -> None:
    """A hang is repeated if the reply had not arrived; a process for several turns is one call, whatever it got."""
    hang = scenarios()["hang-before-answer"]
    for said, times in ((b"first", 2), (b"first second", 1)):
        begun = Started(1, (), "", (), "pipe", 0.0, kind="process")
        message = json.dumps({"text": said.decode()}).encode()
        call = EngineCall(1, begun, None, message, stdin_closed=False, stdout=b"", stderr="", signals=(), handle=None)
        evidence = Evidence(hang, (replace(RAN, seconds=hang.deadline),), (call,))
        assert attempts(hang, evidence) == [*"12"][:times]


def test_a_slow_command_that_may_have_canceled_is_given_more_time() -> None:
    """It is repeated if it took as long as a deadline, and its last turn did not; else it is known what it did."""
    canceled = scenarios()["canceled"]
    for seconds, ended, times in ((13.0, 4.0, 2), (13.0, 10.0, 1), (4.0, 3.0, 1)):
        call = EngineCall(1, BEGUN, None, b"second", stdin_closed=True, stdout=b"", stderr="", signals=(), handle=None)
        evidence = Evidence(canceled, (replace(RAN, seconds=seconds, ended=ended),), (call,))
        assert attempts(canceled, evidence) == [*"12"][:times]


def test_a_flood_that_is_still_read_is_given_more_time() -> None:
    """It proves nothing if that is not enough either; a flood that nobody reads, or a COMMAND that gives up, does."""
    flood = scenarios()["stderr-flood"]
    call = EngineCall(1, BEGUN, None, b"first", stdin_closed=True, stdout=b"", stderr="", signals=(), handle=None)
    for flooded, seconds, times in ((2_000_000, 61.0, 2), (212_992, 61.0, 1), (2_000_000, 3.0, 1)):
        evidence = Evidence(flood, (replace(RAN, seconds=seconds),), (replace(call, flooded=flooded),))
        assert attempts(flood, evidence) == [*"12"][:times]
        assert (unanswered(evidence, CODEX) is None) is (times == 1)


def test_a_command_that_was_ended_early_is_given_more_time() -> None:
    """It must have had its deadline and its grace in the engine's last turn; one that exits is not repeated.

    That the engine heeds a signal doesn't count.
    """
    hang = scenarios()["hang-before-answer"]
    ended_by = ("SIGTERM",)
    call = EngineCall(1, BEGUN, None, b"", stdin_closed=True, stdout=b"", stderr="", signals=ended_by, handle=None)
    enough = BEGUN.at + hang.deadline + hang.grace
    for code, ended, times in ((None, enough - 1, 2), (None, enough + 1, 1), (0, 0.0, 1)):
        evidence = Evidence(hang, (replace(RAN, exit_code=code, ended=ended),), (call,))
        assert attempts(hang, evidence) == [*"12"][:times]


def test_a_second_run_says_so() -> None:
    """With the deadline that COMMAND then got, whatever the run shows."""
    hang = scenarios()["hang-before-answer"]
    evidence = Evidence(hang, (replace(RAN, exit_code=1, seconds=hang.deadline),), ())
    assert outcome(hang, CODEX, lambda *_: evidence).again.endswith("TURNGATE_DEADLINE_SEC was 25")
    assert outcome(TALKS, CODEX, lambda *_: replace(evidence, scenario=TALKS)).again == ""


def test_a_reply_without_a_question_proves_nothing() -> None:
    """COMMAND then looks at no question, so that nothing shows whether it keeps one."""
    begun = replace(BEGUN, argv=("exec", "--json"), cwd=os.path.realpath(""), env=("HOME", "PATH"))
    first, second = (
        EngineCall(
            number,
            replace(begun, at=number, prompt=text, resumed=resumed),
            CallEnd("s", 0, number + 0.5),
            b"",
            stdin_closed=True,
            stdout=b"",
            stderr="",
            signals=(),
            handle="s",
        )
        for number, (text, resumed) in enumerate(zip(RAN.conversation.prompts, (None, "s"), strict=True), 1)
    )
    own, did = scenarios()["own-turn"], (replace(RAN, exit_code=0, stdout="amber"),)
    kept, ended = Evidence(own, did, (first, second)), Evidence(own, did, (first,))
    shown = [outcome(own, CODEX, lambda _, name: kept if name == "1" else ended), outcome(own, CODEX, lambda *_: kept)]
    assert [one.missing for one in shown] == [None, (ScenarioResult.SKIPPED, REPLIES_ANYWAY)]
    assert [one.breaches for one in shown] == [(), ()]


@pytest.mark.long
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
