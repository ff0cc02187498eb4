"""Real processes: two resumes at once, crashes, interrupts, a reader that goes away, and lean imports."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

import psutil
import pytest

from tests.reference import cli_env as d
from tests.reference.cli_env import Desk

PATIENCE = 60
LEAN = """
import sys
from turngate import cli
code = cli.run(sys.argv[1:])
print(code, *sorted({name.partition(".")[0] for name in sys.modules} | {n for n in sys.modules if "turngate" in n}))
"""


@pytest.fixture(name="handle")
def _handle(desk: Desk) -> str:
    """Hold one conversation, whose next turn waits to be met."""
    desk.fifos()
    desk.engine("codex", d.codex("hi"), d.codex("Slow.", more=[["meet"]]), d.codex("Next."))
    return desk.begin()


def test_of_two_resumes_at_once_one_runs_and_the_other_is_told(desk: Desk, handle: str) -> None:
    """The second one ends with 2, names the first's process, and runs nothing; then the handle is free again."""
    first = desk.spawn("resume", handle, "one")
    desk.meet()
    second = desk.spawn("resume", handle, "two")
    _, told = second.communicate(timeout=PATIENCE)
    assert second.returncode == 2
    assert f"{handle} is in use by process {first.pid}, since 20" in told
    assert [call["stdin"] for call in desk.calls()] == ["hello", "one"]
    desk.release()
    assert first.communicate(timeout=PATIENCE)[0] == "Slow.\n"
    assert first.returncode == 0
    assert desk.type("resume", handle, "three").code == 0
    assert desk.record(handle)["turns"] == 3


def test_the_lock_of_a_process_that_crashed_is_none(desk: Desk, handle: str) -> None:
    """After SIGKILL of its holder a handle can be resumed at once, from a record that is whole."""
    holder = desk.spawn("resume", handle, "one")
    engine = desk.meet()
    holder.kill()
    holder.communicate(timeout=PATIENCE)
    record = desk.record(handle)
    assert (record["state"], record["session"]["value"]) == ("unfinished", d.SESSION)
    assert desk.type("resume", handle, "two").out == "Next.\n"
    os.kill(engine, signal.SIGKILL)


def test_a_start_that_crashed_is_listed_and_pruned(desk: Desk) -> None:
    """A conversation whose first attempt was killed has a record, so that it can be found and removed."""
    desk.fifos()
    desk.engine("codex", d.codex("hi", more=[["meet"]]))
    process = desk.spawn("start", "codex", "hello")
    engine = desk.meet()
    process.kill()
    process.communicate(timeout=PATIENCE)
    assert "codex      unfinished hello" in desk.type("handles").out
    assert "removed" in desk.type("handles", "prune", "--older-than", "0h").out
    assert list((desk.data / "runs").iterdir()) == []
    os.kill(engine, signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_ends_the_engine_and_the_record_is_written(desk: Desk, number: signal.Signals) -> None:
    """Interrupted, a start ends with 130, leaves no process, and the record holds the session that had begun."""
    desk.fifos()
    desk.engine("codex", d.codex("hi", more=[["meet"]]))
    # whoever runs the tests under nohup has them inherit that SIGHUP is ignored, and so would the command
    before = signal.signal(number, signal.SIG_DFL)
    try:
        process = desk.spawn("start", "codex", "hello")
    finally:
        signal.signal(number, before)
    engine = psutil.Process(desk.meet())
    process.send_signal(number)
    _, told = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert not engine.is_running()
    record = desk.only_record()
    assert (record["state"], record["session"]["value"]) == ("failed", d.SESSION)
    assert told == f"interrupted\nhandle {record['handle']}; to continue: turngate resume {record['handle']} MESSAGE\n"


def test_when_the_reader_of_the_answer_goes_away_the_record_is_written(desk: Desk) -> None:
    """As in `turngate start … | head`: the engine is ended, the exit code is 141, and the session is not lost."""
    desk.fifos()
    begin, rest = d.codex("hi")[:1], d.codex("hi")[1:]
    desk.engine("codex", [*begin, ["meet"], *rest])
    process = desk.spawn("start", "codex", "hello")
    desk.meet()
    assert process.stdout
    process.stdout.close()
    desk.release()
    assert process.stderr
    process.stderr.read()
    assert process.wait(PATIENCE) == 141
    assert desk.only_record()["session"]["value"] == d.SESSION
    with suppress(subprocess.SubprocessError):
        process.kill()
    process.stderr.close()


def test_start_and_resume_import_what_they_need_alone(desk: Desk) -> None:
    """Neither validation, nor drawing on terminals, nor the server, nor the probes are loaded to run an engine."""
    desk.engine("codex", d.codex("hi"))
    handle = desk.begin()
    for words in (("start", "codex", "hello"), ("resume", handle, "go on")):
        argv = [sys.executable, "-c", LEAN, *words]
        out = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
        code, *modules = out.splitlines()[-1].split()
        assert code == "0"
        assert "turngate_reference.conversations.conversation" in modules
        heavy = {"jsonschema", "referencing", "rich", "flask", "platformdirs", "turngate_probes", "zstandard"}
        assert heavy & set(modules) == set()
        assert ("secrets" in modules) is (words[0] == "start")
