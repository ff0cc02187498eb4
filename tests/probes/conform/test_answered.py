"""When a run says something about its scenario."""

import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.conform.orchestrators.catalogue import CORRECT
from tests.probes.conform.sessions import BEGUN, CLAUDE, CODEX, IDLE, PROCESS, RAN, conform
from turngate import Stop, load_contract
from turngate_probes.conform.answered import FORKS, NO_CALL, OTHER_OUTPUT, still_read, unanswered
from turngate_probes.conform.calls import CallEnd, EngineCall
from turngate_probes.conform.catalogue import NOT_REACHED, scenarios
from turngate_probes.conform.conform_report import Conformance, ScenarioResult
from turngate_probes.conform.judge import Evidence
from turngate_probes.conform.player import described
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
        ("0.117.0", "call 1: `codex mcp-server` is not simulated", []),
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


def test_a_fresh_session_can_not_be_told_from_a_fork() -> None:
    """A fork gets an id of its own in every turn."""
    argv = ("-p", "--output-format", "json", "--fork-session", "hi")
    assert described(CLAUDE, argv, {}, None).forks
    for forks, missing in ((False, None), (True, (ScenarioResult.SKIPPED, FORKS))):
        started, end = replace(BEGUN, forks=forks, prompt="first"), CallEnd("s", 0, 1.0)
        call = EngineCall(1, started, end, b"", stdin_closed=True, stdout=b"", stderr="", signals=(), handle="s")
        assert unanswered(Evidence(scenarios()["fresh-session"], (RAN,), (call,)), CODEX) == missing


def test_a_driver_that_fails_at_once_is_quoted(tmp_path: Path) -> None:
    """Its last line says what to correct, and leads; the other scenarios would say the same."""
    report = conform(tmp_path, (sys.executable, "-c", "import no_such_module"), "two-turns", "crash")
    assert report.results[0].detail.startswith(
        "COMMAND failed: it exited with 1: \"ModuleNotFoundError: No module named 'no_such_module'\". COMMAND never"
    )
    assert report.results[1].detail == NOT_REACHED


@pytest.mark.long
def test_what_is_written_of_a_flood_is_noted(tmp_path: Path) -> None:
    """A reader that stops after 1.5 MB has left the rest; the amount tells, whatever the time."""
    driver = tmp_path / "driver.py"
    driver.write_text(STOPS_READING, "utf-8")
    flood = replace(scenarios()["stderr-flood"], deadline=1.0)
    evidence = play(flood, CODEX, (sys.executable, str(driver)), tmp_path / "runs", Stop())
    assert 1_500_000 - 65_536 <= evidence.calls[0].flooded < 2_097_152
    assert still_read(evidence) == evidence.calls[0]
