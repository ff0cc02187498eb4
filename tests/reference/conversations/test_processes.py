"""Real processes: two resumes at once, crashes, interrupts, a reader that goes away, and lean imports."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

import psutil
import pytest

from tests.reference import cli_env as d
from tests.reference.cli_env import CliEnv

PATIENCE = 60
LEAN = """
import sys
from turngate import cli
code = cli.run(sys.argv[1:])
print(code, *sorted({name.partition(".")[0] for name in sys.modules} | {n for n in sys.modules if "turngate" in n}))
"""


@pytest.fixture(name="handle")
def _handle(cli_env: CliEnv) -> str:
    """Hold one conversation, whose next turn waits to be met."""
    cli_env.fifos()
    cli_env.engine("codex", d.codex("hi"), d.codex("Slow.", more=[["meet"]]), d.codex("Next."))
    return cli_env.begin()


def test_of_two_resumes_at_once_one_runs_and_the_other_is_told(cli_env: CliEnv, handle: str) -> None:
    """The second one ends with 2, names the first's process, and runs nothing; then the handle is free again."""
    first = cli_env.spawn("resume", handle, "one")
    cli_env.meet()
    second = cli_env.spawn("resume", handle, "two")
    _, told = second.communicate(timeout=PATIENCE)
    assert second.returncode == 2
    assert f"{handle} is in use by process {first.pid}, since 20" in told
    assert [call["stdin"] for call in cli_env.calls()] == ["hello", "one"]
    cli_env.release()
    assert first.communicate(timeout=PATIENCE)[0] == "Slow.\n"
    assert first.returncode == 0
    assert cli_env.type("resume", handle, "three").code == 0
    assert cli_env.record(handle)["turns"] == 3


def test_the_lock_of_a_process_that_crashed_is_none(cli_env: CliEnv, handle: str) -> None:
    """After SIGKILL of its holder a handle can be resumed at once, from a record that is whole."""
    holder = cli_env.spawn("resume", handle, "one")
    engine = cli_env.meet()
    holder.kill()
    holder.communicate(timeout=PATIENCE)
    record = cli_env.record(handle)
    assert (record["state"], record["session"]["value"]) == ("unfinished", d.SESSION)
    assert cli_env.type("resume", handle, "two").out == "Next.\n"
    os.kill(engine, signal.SIGKILL)


def test_a_start_that_crashed_is_listed_and_pruned(cli_env: CliEnv) -> None:
    """A conversation whose first attempt was killed has a record, so that it can be found and removed."""
    cli_env.fifos()
    cli_env.engine("codex", d.codex("hi", more=[["meet"]]))
    process = cli_env.spawn("start", "codex", "hello")
    engine = cli_env.meet()
    process.kill()
    process.communicate(timeout=PATIENCE)
    assert "codex      unfinished hello" in cli_env.type("handles").out
    assert "removed" in cli_env.type("handles", "prune", "--older-than", "0h").out
    assert list((cli_env.data / "runs").iterdir()) == []
    os.kill(engine, signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_ends_the_engine_and_the_record_is_written(cli_env: CliEnv, number: signal.Signals) -> None:
    """Interrupted, a start ends with 130, leaves no process, and the record holds the session that had begun."""
    cli_env.fifos()
    cli_env.engine("codex", d.codex("hi", more=[["meet"]]))
    # whoever runs the tests under nohup has them inherit that SIGHUP is ignored, and so would the command
    before = signal.signal(number, signal.SIG_DFL)
    try:
        process = cli_env.spawn("start", "codex", "hello")
    finally:
        signal.signal(number, before)
    engine = psutil.Process(cli_env.meet())
    process.send_signal(number)
    _, told = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert not engine.is_running()
    record = cli_env.only_record()
    assert (record["state"], record["session"]["value"]) == ("failed", d.SESSION)
    assert told == f"interrupted\nhandle {record['handle']}; to continue: turngate resume {record['handle']} MESSAGE\n"


def test_when_the_reader_of_the_answer_goes_away_the_record_is_written(cli_env: CliEnv) -> None:
    """As in `turngate start … | head`: the engine is ended, the exit code is 141, and the session is not lost."""
    cli_env.fifos()
    begin, rest = d.codex("hi")[:1], d.codex("hi")[1:]
    cli_env.engine("codex", [*begin, ["meet"], *rest])
    process = cli_env.spawn("start", "codex", "hello")
    cli_env.meet()
    assert process.stdout
    process.stdout.close()
    cli_env.release()
    assert process.stderr
    process.stderr.read()
    assert process.wait(PATIENCE) == 141
    assert cli_env.only_record()["session"]["value"] == d.SESSION
    with suppress(subprocess.SubprocessError):
        process.kill()
    process.stderr.close()


def test_start_and_resume_import_what_they_need_alone(cli_env: CliEnv) -> None:
    """Neither validation, nor drawing on terminals, nor the server, nor the probes are loaded to run an engine."""
    cli_env.engine("codex", d.codex("hi"))
    handle = cli_env.begin()
    for words in (("start", "codex", "hello"), ("resume", handle, "go on")):
        argv = [sys.executable, "-c", LEAN, *words]
        out = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
        code, *modules = out.splitlines()[-1].split()
        assert code == "0"
        assert "turngate_reference.conversations.conversation" in modules
        heavy = {"jsonschema", "referencing", "rich", "flask", "platformdirs", "turngate_probes", "zstandard"}
        assert heavy & set(modules) == set()
        assert ("secrets" in modules) is (words[0] == "start")
