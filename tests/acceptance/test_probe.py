"""`turngate probe` end to end, on the fake engine: verdicts, exit codes, output, interruption."""

import json
import os
import select
import signal
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.acceptance.command import CRASHING, HURRIED, Command, CommandResult
from tests.probes import engines
from tests.probes.turns import CODEX
from turngate.contract.load import catalogue, first_error
from turngate_probes.harness.cases import CASES
from turngate_probes.simulate.simulated_process import install

# without those of level long
PLAYED = [case for case in CASES if case.level != "long"]


@pytest.fixture(name="turngate")
def _turngate(tmp_path: Path) -> Command:
    """Return the command, with no engine and no npm on PATH."""
    empty = tmp_path / "empty"
    empty.mkdir()
    return Command(tmp_path, str(empty))


def probed(turngate: Command, *faults: str) -> CommandResult:
    """Probe a fake engine with these faults, without the wait for a later minute."""
    executable = engines.install(turngate.folder / "engine", *faults)
    return turngate.run("probe", f"codex={executable}", "--json", code=HURRIED)


@pytest.mark.long
def test_a_healthy_engine_is_compatible(turngate: Command) -> None:
    """Every clause has a result, none fails, the exit code is 0, and the JSON matches its schema."""
    done = probed(turngate)
    assert done.code == 0, done.err
    assert first_error("probe-report", done.report) is None
    assert set(done.clauses().values()) == {"pass"}
    assert set(done.clauses()) == {clause.id for clause in catalogue().at_level("static", "hermetic")}
    (release,) = done.report["releases"]
    assert (release["verdict"], release["version"], release["source"]) == ("compatible", "0.169.0", "path")
    assert release["turns"] == sum(case.turns(CODEX) for case in PLAYED)
    assert (release["profile"]["kind"], release["capability"]["supported"]) == ("resumable", True)
    assert release["handle"]["handle_type"] == "session_id"


@pytest.mark.long
def test_json_leaves_standard_output_to_itself(turngate: Command) -> None:
    """With `--json` all text goes to stderr: verdict, counts and the journal's path."""
    done = turngate.run("probe", f"codex={engines.install(turngate.folder)}", "--level", "static", "--json")
    assert json.loads(done.out)["level"] == "static"
    assert "compatible" in done.err
    assert "2 clauses: 2 passed" in done.err
    assert "exit code 0" in done.err


@pytest.mark.long
def test_a_renamed_id_is_broken_by_its_presence(turngate: Command) -> None:
    """Without `thread_id` the release is broken; clauses that need the id are not run."""
    done = probed(turngate, "renames-id")
    assert done.code == 1, done.err
    results = done.clauses()
    assert [clause for clause, result in results.items() if result == "fail"] == ["handle.present"]
    assert results["resume.context-carried"] == "not_run"
    assert done.report["releases"][0]["profile"]["kind"] == "sticky_process"
    assert "fail handle.present" in done.err


@pytest.mark.long
def test_a_dropped_session_is_broken_by_its_context(turngate: Command) -> None:
    """A resume without the conversation is broken, despite exit code 0 and the right id."""
    done = probed(turngate, "forgets")
    assert done.code == 1, done.err
    results = done.clauses()
    assert (results["resume.accepted"], results["resume.same-handle"]) == ("pass", "pass")
    assert [clause for clause, result in results.items() if result == "fail"] == ["resume.context-carried"]


@pytest.mark.long
def test_an_engine_that_updates_itself_is_degraded(turngate: Command) -> None:
    """A changed executable is reported and degrades the release, which fails under --strict."""
    executable = engines.install(turngate.folder / "engine", "updates-itself")
    args = ("probe", f"codex={executable}", "--json")
    done = turngate.run(*args, code=HURRIED)
    assert done.code == 0, done.err
    assert done.clauses()["executable.unchanged"] == "fail"
    assert done.report["releases"][0]["verdict"] == "degraded"
    assert turngate.run(*args, "--strict", code=HURRIED).code == 1


@pytest.mark.long
def test_an_unreadable_version_is_broken(turngate: Command) -> None:
    """Unreadable version output fails the engine's version clause."""
    executable = engines.install(turngate.folder, "no-version")
    done = turngate.run("probe", f"codex={executable}", "--level", "static", "--json")
    assert (done.code, done.report["releases"][0]["version"]) == (1, None)
    assert done.clauses() == {"version.readable": "fail", "help.surface": "not_run"}


@pytest.mark.long
def test_a_version_of_no_known_form_is_broken(turngate: Command) -> None:
    """An invalid version that matches the contract's pattern is reported like an unreadable one."""
    executable = engines.install(turngate.folder, "odd-version")
    done = turngate.run("probe", f"codex={executable}", "--level", "static", "--json")
    assert done.code == 1, done.err
    assert done.clauses()["version.readable"] == "fail"


@pytest.mark.long
@pytest.mark.parametrize(
    "target, said",
    [
        ("codex={folder}/missing", "there is no executable"),
        ("codex={folder}/plain", "exists, but isn't executable"),
        ("codex", "npm is not on PATH: install Node.js 20 or newer"),
    ],
)
def test_what_can_not_be_asked_is_unanswered(turngate: Command, target: str, said: str) -> None:
    """A missing executable, one that can't run and missing npm exit with 2 and a hint, without a verdict."""
    (turngate.folder / "plain").write_text("not executable")
    done = turngate.run("probe", target.format(folder=turngate.folder), "--json")
    assert done.code == 2, done.err
    assert said in done.err
    (release,) = done.report["releases"]
    assert release["verdict"] == "unanswered"
    assert release["failed"]["hint"]
    assert {clause["result"] for clause in release["clauses"]} == {"not_run"}


@pytest.mark.long
def test_an_unknown_engine_is_refused(turngate: Command) -> None:
    """An unknown engine is rejected before anything runs, in two lines that list the known engines."""
    done = turngate.run("probe", "kodex", "codex=/missing")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("Error: 'kodex' is not an engine\n")
    assert "codex" in done.err.splitlines()[1]


@pytest.mark.long
def test_one_release_that_can_not_be_asked_leaves_the_others_alone(turngate: Command) -> None:
    """The available engine is still probed, and the exit code says that one release is unanswered."""
    executable = engines.install(turngate.folder)
    done = turngate.run("probe", "codex=/missing", f"codex={executable}", "--level", "static", "--json")
    assert done.code == 2
    assert [release["verdict"] for release in done.report["releases"]] == ["unanswered", "compatible"]


@pytest.mark.long
def test_an_interrupt_ends_the_engines_and_still_reports(turngate: Command) -> None:
    """SIGINT ends every running engine, the results so far are printed, and the exit code is 130."""
    folder = turngate.folder / "engine"
    executable = engines.install(folder, "meets-tester")
    os.mkfifo(folder / "meeting")
    # also open for writing, so that a later engine doesn't wait for a reader
    meeting = os.open(folder / "meeting", os.O_RDWR)
    process = turngate.start("probe", f"codex={executable}", "--jobs", "1", "--json", code=HURRIED)
    assert select.select([meeting], [], [], 60)[0], "no engine was started"
    met = os.read(meeting, 4096)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    os.set_blocking(meeting, False)
    with suppress(BlockingIOError):
        met += os.read(meeting, 4096)
    os.close(meeting)
    done = CommandResult(process.returncode, out, err)
    assert done.code == 130, err
    assert "interrupted, so the results are incomplete" in err
    assert done.report["interrupted"] is True
    assert "fail" not in done.clauses().values(), err
    assert done.report["releases"][0]["verdict"] == "unanswered"
    assert [pid for pid in met.split() if psutil.pid_exists(int(pid))] == []


@pytest.mark.long
def test_sandboxes_are_kept_where_asked(turngate: Command) -> None:
    """`--keep DIR` keeps the journal, and each sandbox with the output of its turns; otherwise nothing is kept."""
    executable = engines.install(turngate.folder / "engine")
    turngate.run("probe", f"codex={executable}", "--keep", "kept", code=HURRIED)
    kept = turngate.folder / "kept"
    written = [json.loads(line)["event"] for line in (kept / "probe.ndjson").read_text().rstrip("\n").split("\n")]
    assert written.count("turn") == sum(case.turns(CODEX) for case in PLAYED)
    boxes = kept / "codex@0.169.0"
    assert {box.name for box in boxes.iterdir()} == {case.name for case in PLAYED}
    assert b"thread.started" in (boxes / "main/turns/first/stdout").read_bytes()
    assert json.loads((boxes / "main/turns/again/request-1.json").read_text())["input"]
    turngate.run("probe", f"codex={executable}", "--level", "static")
    assert list((turngate.folder / "cache/sandboxes").iterdir()) == []


@pytest.mark.long
def test_a_crash_of_ours_is_no_verdict(turngate: Command) -> None:
    """An exception in a check exits with 3 and its traceback, never with 0, 1 or 2."""
    executable = engines.install(turngate.folder)
    done = turngate.run("probe", f"codex={executable}", "--level", "static", "--json", code=CRASHING)
    assert done.code == 3, done.err
    assert "ZeroDivisionError" in done.err
    assert done.out == ""


@pytest.mark.long
def test_the_server_level_asks_through_the_server(turngate: Command) -> None:
    """The reference server runs a simulated engine, and the report matches its schema."""
    executable = install(CODEX, turngate.folder / "engine")
    asked = ("--level", "server", "--clause", "server.bad-envelope")
    done = turngate.run("probe", f"codex={executable}", *asked, "--json")
    assert done.code == 0, done.err
    assert first_error("probe-report", done.report) is None
    assert done.clauses() == {"server.waits": "pass", "server.bad-envelope": "pass"}
    assert (done.report["level"], done.report["releases"][0]["turns"]) == ("server", 4)


@pytest.mark.long
def test_an_engine_that_keeps_its_id_to_itself_is_told_with_the_servers_answer(turngate: Command) -> None:
    """A failure is shown with the API's response next to the engine's output."""
    executable = engines.install(turngate.folder / "engine", "renames-id")
    asked = ("--level", "server", "--clause", "server.waits")
    done = turngate.run("probe", f"codex={executable}", *asked, "--json")
    assert done.code == 1, done.err
    (clause,) = done.report["releases"][0]["clauses"]
    call, turn = clause["evidence"]
    assert (call["call"], call["status"]) == ("loop/asked", 200)
    assert json.loads(call["answer"])["error"]["code"] == "SESSION_RESUME_FAILED"
    assert turn["turn"] == "loop/turn-1"
    assert "call loop/asked: GET /v1/runs/" in done.err


@pytest.mark.long
def test_a_withdrawn_engine_is_not_driven(turngate: Command) -> None:
    """Without an executable no server clause is run, and the reason is reported."""
    done = turngate.run("probe", "iflow", "--level", "server", "--json")
    assert done.code == 2, done.err
    assert set(done.clauses().values()) == {"not_run"}
    assert "no executable to run" in done.err
