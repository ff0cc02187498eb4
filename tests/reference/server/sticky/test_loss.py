import os
import signal
import subprocess
import time

import pytest

from tests.reference.server.sticky.stage import Heard, Stage, contract
from turngate.model import Mode
from turngate.process import is_alive
from turngate_reference.server.sticky.events import Gone, Lost, Opened

AT_ONCE = 1.0
all_of_them = pytest.mark.parametrize("transport", ["acp", "app_server", "stream_json"])


@all_of_them
def test_a_kill_while_waiting_is_noticed_at_once(stage: Stage, transport: str) -> None:
    """A process that is killed between turns is lost within a second, and gone after that."""
    heard, opened = stage.opened(contract(transport))
    stage.turn(heard, "go on")
    before = time.monotonic()
    os.kill(opened.pid, signal.SIGKILL)
    assert "it has exited" in heard.until(Lost).detail
    assert heard.at - before < AT_ONCE
    assert heard.until(Gone).exit_code == -signal.SIGKILL


@all_of_them
def test_an_exit_within_a_turn_is_a_loss(stage: Stage, transport: str) -> None:
    """The detail holds the last words on stderr, with nothing that a terminal would obey; no end is told."""
    heard, _ = stage.opened(contract(transport))
    stage.host.prompt("run", "exit 3")
    lost = heard.until(Lost)
    assert lost.detail == "it has exited; it said: out of ideas\\x07"
    assert not lost.ours
    assert heard.until(Gone).exit_code == 3


@all_of_them
def test_a_dead_launcher_takes_its_engine_along(stage: Stage, transport: str) -> None:
    """The engine behind a launcher still holds the pipes; the loss is noticed by the launcher, and both are ended."""
    heard, opened = stage.opened(contract(transport, "launcher"))
    pid = int((stage.turn(heard, "go on").final_text or "").split()[-1])
    assert pid != opened.pid
    before = time.monotonic()
    os.kill(opened.pid, signal.SIGKILL)
    heard.until(Lost)
    assert heard.at - before < AT_ONCE
    heard.until(Gone)
    assert not is_alive(pid)


@pytest.mark.parametrize("prompt", ["close", "deaf"])
def test_a_pipe_that_ends_is_a_loss(stage: Stage, prompt: str) -> None:
    """An engine that lives on but no longer speaks, or hears, is ended."""
    heard, opened = stage.opened(contract("acp"))
    stage.host.prompt("run", prompt)
    assert {"close": "output has ended", "deaf": "can't be written to"}[prompt] in heard.until(Lost).detail
    heard.until(Gone)
    assert not is_alive(opened.pid)


def test_an_end_that_was_asked_for_is_no_loss(stage: Stage) -> None:
    """The tree is ended, and `Gone` is all that is told; the run can be opened anew."""
    heard, opened = stage.opened(contract("app_server", "launcher"))
    stage.host.end("run")
    heard.until(Gone)
    assert not any(isinstance(each, Lost) for each in heard.past)
    assert not is_alive(opened.pid)
    stage.opened(contract("app_server"))


def test_an_executable_that_is_not_there_is_a_loss(stage: Stage) -> None:
    """The reason is told as an event, and nothing is raised."""
    stage.executable().unlink()
    stage.executable().write_text("no program")
    heard = stage.open(contract("acp"))
    assert "not started" in heard.until(Lost).detail
    assert heard.until(Gone).exit_code is None


def test_a_run_has_one_process(stage: Stage) -> None:
    """A second one is refused, and so is any once the host is closed; calls for unknown runs are passed over."""
    heard = stage.open(contract("acp"))
    with pytest.raises(ValueError, match="has a process already"):
        stage.open(contract("acp"))
    stage.host.prompt("nobody", "go on")
    stage.host.decide("nobody", "x", "y")
    stage.host.end("nobody")
    stage.host.close()
    heard.until(Gone)
    with pytest.raises(ValueError, match="closed"):
        stage.open(contract("acp"))
    stage.host.prompt("run", "go on")


def test_closing_ends_every_process(stage: Stage) -> None:
    """`close` returns when all are gone, and may be called twice."""
    ready = [stage.opened(contract("app_server"), f"run-{n}", Mode.AUTO)[1] for n in range(3)]
    stage.host.close()
    stage.host.close()
    assert not any(is_alive(each.pid) for each in ready)


def test_a_listener_that_fails_harms_nobody(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """What it raises is logged, and the run goes on."""
    heard = Heard()

    def listen(event: object) -> None:
        heard(event)  # type: ignore[arg-type]
        if isinstance(event, Opened):
            raise RuntimeError("the listener is ill")  # noqa: TRY004 - no matter of types

    stage.host.open("run", stage.request(contract("acp"), "run", Mode.AUTO, {}), listen)
    heard.until(Opened)
    assert stage.turn(heard, "go on").failure is None
    assert "the listener is ill" in caplog.text


def test_a_process_is_not_reaped_by_the_watch(stage: Stage) -> None:
    """Other children of this program keep their exit codes while processes are watched."""
    stage.opened(contract("app_server"))
    assert subprocess.run(["/bin/sh", "-c", "exit 7"], check=False).returncode == 7


def test_where_the_system_tells_of_no_exit_it_is_looked_at(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a look that costs nothing, a kill is noticed as soon."""
    monkeypatch.delattr(os, "waitid")
    heard, opened = stage.opened(contract("app_server", "launcher"))
    before = time.monotonic()
    os.kill(opened.pid, signal.SIGKILL)
    heard.until(Lost)
    assert heard.at - before < AT_ONCE
