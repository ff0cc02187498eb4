"""When a run says something about its scenario, and when it gets more time."""

import json
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.conform.orchestrators.catalogue import CORRECT
from tests.probes.conform.sessions import BEGUN, CLAUDE, CODEX, IDLE, PROCESS, RAN, conform, played
from turngate import Stop, load_contract
from turngate_probes.conform.answered import (
    LONG_ARGUMENT,
    NO_CALL,
    NO_FILE,
    OTHER_OUTPUT,
    TOO_LONG,
    still_read,
    unanswered,
)
from turngate_probes.conform.calls import EngineCall, Started
from turngate_probes.conform.catalogue import NOT_REACHED, scenarios
from turngate_probes.conform.conform_report import Conformance, ScenarioResult
from turngate_probes.conform.judge import Evidence
from turngate_probes.conform.run import play
from turngate_probes.conform.session import ConformSession
from turngate_probes.harness.interrupt import Interrupt

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
# it reads 1.5 MB of a flood, until its deadline
STOPS_READING = """
import os, subprocess, time
argv = ["codex", "exec", "--json", "--skip-git-repo-check", "--sandbox", "read-only", "-"]
pipe = subprocess.PIPE
engine = subprocess.Popen(argv, cwd=os.environ["TURNGATE_WORKSPACE"], stdin=pipe, stdout=pipe, stderr=pipe)
engine.stdin.write(os.environ["TURNGATE_PROMPT"].encode())
engine.stdin.close()
engine.stderr.read(1_500_000)
time.sleep(float(os.environ["TURNGATE_DEADLINE_SEC"]))
engine.kill()
raise SystemExit(1)
"""


def test_without_a_call_nothing_is_answered(tmp_path: Path) -> None:
    """Not even that a conversation failed, as it should; the hint names the variable of the engine."""
    report = conform(tmp_path, IDLE, "lost-session", "prompt-200-kb")
    hint = NO_CALL.format(variable="TURNGATE_ENGINE_CODEX")
    assert [(row.result, row.detail) for row in report.results] == [
        (ScenarioResult.UNANSWERED, f"COMMAND failed: it exited with 1. {hint}"),
        (ScenarioResult.UNANSWERED, f"COMMAND failed: it exited with 1. {hint}"),
    ]
    assert (report.verdict, report.exit_code) == (Conformance.UNANSWERED, 2)


def test_an_option_that_is_not_simulated_leaves_the_run_unanswered(tmp_path: Path) -> None:
    """The reason names it, instead of a verdict about an engine that ignores it."""
    driver = tmp_path / "driver.py"
    driver.write_text(CORRECT["python"].read_text("utf-8").replace('"exec", ', '"exec", "--worktree", '), "utf-8")
    (row,) = conform(tmp_path / "runs", (sys.executable, str(driver)), "two-turns").results
    assert (row.result, row.detail) == (ScenarioResult.UNANSWERED, "call 1: `codex --worktree` is not simulated")


@pytest.mark.parametrize(
    "release, detail, breaches",
    [
        ("0.147.0", "call 1: `codex mcp-server` is not simulated", []),
        ("0.169.0", "", [("orchestrator.arguments", "the engine refused them: unexpected argument 'mcp-server'")]),
    ],
)
def test_a_command_is_refused_only_by_a_release_that_lacks_it(
    tmp_path: Path, release: str, detail: str, breaches: list[tuple[str, str]]
) -> None:
    """Codex 0.161.0 has no `mcp-server`: it takes the word for a prompt, which it accepts only in a terminal."""
    command = ("sh", "-c", "codex mcp-server")
    session = ConformSession(command, (load_contract("codex", release),), (scenarios()["two-turns"],), tmp_path, 1)
    (row,) = session.run(Interrupt(), lambda _: None).results
    assert (row.detail, [(breach.rule, breach.detail) for breach in row.breaches]) == (detail, breaches)


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


@pytest.mark.long
@pytest.mark.parametrize("last", [RESUMED, ONE_TURN], ids=["process", "turn"])
def test_two_processes_can_have_three_turns(tmp_path: Path, last: str) -> None:
    """Turns are not counted by processes, one of which had two. Its session id is one that may be resumed."""
    chosen, command = (scenarios()["three-turns"],), (sys.executable, "-c", PROCESS + last)
    report = ConformSession(command, (CLAUDE,), chosen, tmp_path, 1).run(Interrupt(), lambda _: None)
    ((result, detail, calls),) = [(row.result, row.detail, len(row.calls)) for row in report.results]
    assert (result, detail, calls) == (ScenarioResult.PASS, "", 2)


def test_what_a_plain_text_cannot_show_is_skipped(tmp_path: Path) -> None:
    """The contract describes only output with records. A turn without an answer is one without text."""
    driver = tmp_path / "driver.sh"
    driver.write_text(
        'cd "$TURNGATE_WORKSPACE" && exec </dev/null && answer=$(claude --print "$TURNGATE_PROMPT") && test "$answer" '
        '&& echo "$answer"'
    )
    chosen = tuple(scenarios()[name] for name in ("two-turns", "no-answer", "exit-0-without-end"))
    session = ConformSession(("sh", str(driver)), (CLAUDE,), chosen, tmp_path / "r", 2, turns=1)
    report = session.run(Interrupt(), lambda _: None)
    assert [(row.result, row.detail) for row in report.results] == [
        (ScenarioResult.PASS, ""),
        (ScenarioResult.PASS, ""),
        (ScenarioResult.SKIPPED, OTHER_OUTPUT),
    ]


def test_a_driver_that_fails_at_once_is_quoted(tmp_path: Path) -> None:
    """Its last line says what to correct, and leads; the other scenarios would say the same."""
    report = conform(tmp_path, (sys.executable, "-c", "import no_such_module"), "two-turns", "crash")
    assert report.results[0].detail.startswith(
        "COMMAND failed: it exited with 1: \"ModuleNotFoundError: No module named 'no_such_module'\". COMMAND never"
    )
    assert report.results[1].detail == NOT_REACHED


def test_only_a_slow_machine_is_given_more_time(tmp_path: Path) -> None:
    """A hang is repeated if the reply had not arrived; a process for several turns is one call, whatever it got."""
    hang = scenarios()["hang-before-answer"]
    for said, times in ((b"first", 2), (b"first second", 1)):
        begun = Started(1, (), "", (), "pipe", 0.0, kind="process")
        message = json.dumps({"text": said.decode()}).encode()
        call = EngineCall(1, begun, None, message, stdin_closed=False, stdout=b"", stderr="", signals=(), handle=None)
        evidence = Evidence(hang, (replace(RAN, seconds=hang.deadline),), (call,))
        assert played(tmp_path, evidence, hang.id) == [hang.id] * times


def test_a_slow_command_that_may_have_canceled_is_given_more_time(tmp_path: Path) -> None:
    """It is repeated if it took as long as a deadline, and its last turn did not; else it is known what it did."""
    canceled = scenarios()["canceled"]
    for seconds, ended, times in ((13.0, 4.0, 2), (13.0, 10.0, 1), (4.0, 3.0, 1)):
        call = EngineCall(1, BEGUN, None, b"second", stdin_closed=True, stdout=b"", stderr="", signals=(), handle=None)
        evidence = Evidence(canceled, (replace(RAN, seconds=seconds, ended=ended),), (call,))
        assert played(tmp_path, evidence, canceled.id) == [canceled.id] * times


def test_a_flood_that_is_still_read_is_given_more_time(tmp_path: Path) -> None:
    """It proves nothing if that is not enough either; a flood that nobody reads, or a COMMAND that gives up, does."""
    flood = scenarios()["stderr-flood"]
    call = EngineCall(1, BEGUN, None, b"first", stdin_closed=True, stdout=b"", stderr="", signals=(), handle=None)
    for flooded, seconds, times in ((2_000_000, 61.0, 2), (212_992, 61.0, 1), (2_000_000, 3.0, 1)):
        evidence = Evidence(flood, (replace(RAN, seconds=seconds),), (replace(call, flooded=flooded),))
        assert played(tmp_path, evidence, flood.id) == [flood.id] * times
        assert (unanswered(evidence, CODEX) is None) is (times == 1)


@pytest.mark.long
def test_what_is_written_of_a_flood_is_noted(tmp_path: Path) -> None:
    """A reader that stops after 1.5 MB has left the rest; the amount tells, whatever the time."""
    driver = tmp_path / "driver.py"
    driver.write_text(STOPS_READING, "utf-8")
    flood = replace(scenarios()["stderr-flood"], deadline=1.0)
    evidence = play(flood, CODEX, (sys.executable, str(driver)), tmp_path / "runs", Stop())
    assert 1_500_000 - 65_536 <= evidence.calls[0].flooded < 2_097_152
    assert still_read(evidence) == evidence.calls[0]


def test_a_command_that_was_ended_early_is_given_more_time(tmp_path: Path) -> None:
    """It must have had its deadline and its grace since the engine's last sign; one that exits is not repeated."""
    hang = scenarios()["hang-before-answer"]
    enough = hang.deadline + hang.grace
    for code, idle, times in ((None, enough - 1, 2), (None, enough + 1, 1), (0, 0.0, 1)):
        evidence = Evidence(hang, (replace(RAN, exit_code=code, idle=idle),), ())
        assert played(tmp_path, evidence, hang.id) == [hang.id] * times
