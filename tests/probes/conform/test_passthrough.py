"""A CLI behind the recording executable."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.tables import each
from turngate_probes.conform import executable
from turngate_probes.conform.calls import calls
from turngate_probes.conform.plan import ConformPlan, Conversation

ECHOES = """#!/bin/sh
echo "$MARK $*"; cat; echo warning >&2; exit 3
"""
WAITS = """#!/bin/sh
trap 'echo term; exit 7' TERM
echo ready; while :; do sleep 0.05; done
"""
ARGV = ("exec", "--json", "--skip-git-repo-check", "-")


def behind(root: Path, script: str) -> Path:
    """Install the executable for a CLI that is a script."""
    cli = root / "cli"
    cli.write_text(script)
    cli.chmod(0o755)
    talk = Conversation("a", ("first", "second"), "amber")
    return executable.install(
        ConformPlan(
            str(root),
            "codex",
            "0.169.0",
            (talk,),
            real=str(cli),
            real_env={"MARK": "marked"},
            elsewhere={"MARK": "elsewhere"},
        )
    )


def test_streams_and_exit_code_pass_through(tmp_path: Path) -> None:
    """The record has what came and went; the CLI gets the variables of the plan."""
    path = behind(tmp_path, ECHOES)
    done = subprocess.run([path, *ARGV], input=b"hello", capture_output=True, check=False, env={"PATH": os.defpath})
    assert (done.returncode, done.stderr) == (3, b"warning\n")
    assert done.stdout == f"marked {' '.join(ARGV)}\nhello".encode()
    (call,) = calls(tmp_path)
    assert (call.stdin, call.stdin_closed, call.stdout, call.handle) == (b"hello", True, done.stdout, None)
    assert call.ended is not None
    assert call.ended.exit_code == 3


@each("home, mark", [("home", "marked"), ("other", "elsewhere")])
def test_another_home_is_another_one_of_the_sandbox(tmp_path: Path, home: str, mark: str) -> None:
    """The CLI never gets the HOME of the orchestrator itself: it may be the user's."""
    path, env = behind(tmp_path, ECHOES), {"PATH": os.defpath, "HOME": str(tmp_path / home)}
    done = subprocess.run([path, *ARGV], stdin=subprocess.DEVNULL, capture_output=True, check=False, env=env)
    assert done.stdout.startswith(mark.encode())


@pytest.mark.long
@each(
    "argv, script, kind, problem",
    [
        (
            ("exec", "--new", "-"),
            "echo \"error: unexpected argument '--new' found\" >&2; exit 2",
            "refused",
            "error: un",
        ),
        (("exec", "--new", "-"), "exit 0", "unknown", "turngate can't read its arguments"),
        (("doctor",), "exit 1", "query", ""),
    ],
)
def test_the_cli_decides_whether_it_refuses_its_arguments(
    tmp_path: Path, argv: tuple[str, ...], script: str, kind: str, problem: str
) -> None:
    """What turngate can't read is not judged if the CLI accepts it; a refusal has the words of the CLI."""
    path = behind(tmp_path, f"#!/bin/sh\n{script}\n")
    subprocess.run([path, *argv], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    (call,) = calls(tmp_path)
    assert (call.started.kind, call.started.problem[: len(problem)]) == (kind, problem)


def test_a_list_of_records_has_a_session(tmp_path: Path) -> None:
    """With its json output and --verbose, Claude Code prints all records as one list."""
    cli, handle = tmp_path / "cli", "0198c6a1-6d70-4000-8000-000000000001"
    end = {"type": "result", "subtype": "success", "is_error": False, "result": "hi", "session_id": handle}
    records = [{"type": "system", "subtype": "init", "session_id": handle}, end]
    cli.write_text(f"#!/bin/sh\necho '{json.dumps(records, separators=(',', ':'))}'\n")
    cli.chmod(0o755)
    path = executable.install(ConformPlan(str(tmp_path), "claude", "2.1.330", (), real=str(cli)))
    argv = (path, "-p", "hi", "--output-format", "json", "--verbose")
    subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    assert calls(tmp_path)[0].handle == handle


def test_signals_pass_through(tmp_path: Path) -> None:
    """The CLI handles them, and the record names them."""
    path, pipe = behind(tmp_path, WAITS), subprocess.PIPE
    with subprocess.Popen([path, *ARGV], stdin=pipe, stdout=pipe, env={"PATH": os.defpath}) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == b"term\n"
        assert process.wait(60) == 7
    assert calls(tmp_path)[0].signals == ("SIGTERM",)


@pytest.mark.long
@pytest.mark.skipif(
    sys.platform != "linux",
    reason="elsewhere no kernel ends a child with its killed parent; docs/test-your-orchestrator.md says so",
)
def test_killing_the_executable_kills_the_cli(tmp_path: Path) -> None:
    """An orchestrator takes the two for one process."""
    path, pipe = behind(tmp_path, WAITS), subprocess.PIPE
    with subprocess.Popen([path, *ARGV], stdin=pipe, stdout=pipe, env={"PATH": os.defpath}) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        (cli,) = psutil.Process(process.pid).children()
        process.kill()
        cli.wait(60)
    assert calls(tmp_path)[0].ended is None


def test_what_a_killed_process_printed_is_known(tmp_path: Path) -> None:
    """Clients kill a process for several turns, and its sessions are in what it printed."""
    path, pipe = behind(tmp_path, WAITS), subprocess.PIPE
    with subprocess.Popen([path, "app-server"], stdin=pipe, stdout=pipe, env={"PATH": os.defpath}) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.kill()
    (call,) = calls(tmp_path)
    assert (call.started.kind, call.ended, call.stdout) == ("process", None, b"ready\n")
