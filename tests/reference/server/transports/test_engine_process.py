import errno
import json
import logging
import os
import signal
import subprocess
import time

import pytest
from msgspec.structs import replace

from tests.probes.simulate.played import at_known_release
from tests.reference.server.transports.stage import ReceivedEvents, Stage, contract, one_of_them
from turngate.contract.launch import PermissionMode
from turngate.process import guard_proof
from turngate.process.family import is_alive
from turngate_reference.server.transports import engine_process
from turngate_reference.server.transports.events import Gone, Lost, Opened

AT_ONCE = 15.0  # seconds; no deadline ends so early, and no machine is so busy


@one_of_them
def test_a_kill_while_waiting_is_noticed_at_once(stage: Stage, transport: str) -> None:
    """A process killed between turns is reported as lost long before any deadline, then as gone."""
    received, opened = stage.opened(contract(transport))
    stage.turn(received, "go on")
    before = time.monotonic()
    os.kill(opened.pid, signal.SIGKILL)
    assert "it has exited" in received.until(Lost).detail
    assert received.at - before < AT_ONCE
    assert received.until(Gone).exit_code == -signal.SIGKILL


@one_of_them
def test_an_exit_within_a_turn_is_a_loss(stage: Stage, transport: str) -> None:
    """The detail holds the last line on stderr, with control characters escaped; no end of turn is reported."""
    received, _ = stage.opened(
        contract(transport), faults="notice='\x1b]0;fake\x07\x1b[1;31mout of ideas\x1b[0m\x1b[K\a\n'"
    )
    stage.host.prompt("run", "fault: dies-in-turn exit-code=3")
    lost = received.until(Lost)
    assert lost.detail == "it has exited; stderr: out of ideas\\x07 | exited during a turn, as requested"
    assert not lost.ours
    assert received.until(Gone).exit_code == 3


@one_of_them
def test_a_dead_launcher_takes_its_engine_along(stage: Stage, transport: str) -> None:
    """The engine still holds the pipes, but its launcher's death is noticed, and both are ended."""
    received, opened = stage.opened(contract(transport), faults="child=works")
    pid = int((stage.turn(received, "go on").final_text or "").split()[-1])
    assert pid != opened.pid
    before = time.monotonic()
    os.kill(opened.pid, signal.SIGKILL)
    received.until(Lost)
    assert received.at - before < AT_ONCE
    received.until(Gone)
    assert not is_alive(pid)


@pytest.mark.parametrize("stream", ["stdout", "stdin"])
def test_a_pipe_that_ends_is_a_loss(stage: Stage, stream: str) -> None:
    """An engine that closes its output, or stops reading its input, is ended."""
    received, opened = stage.opened(contract("acp"))
    stage.host.prompt("run", f"fault: closes={stream}")
    assert {"stdout": "output has ended", "stdin": "input can't be written"}[stream] in received.until(Lost).detail
    received.until(Gone)
    assert not is_alive(opened.pid)


def test_an_executable_that_is_not_there_is_a_loss(stage: Stage) -> None:
    """The reason is reported as an event; nothing is raised."""
    known = contract("acp")
    stage.executable(known).write_text("no program")
    received = stage.open(known)
    assert "could not be started" in received.until(Lost).detail
    assert received.until(Gone).exit_code is None


def test_a_process_that_lost_its_guard_gets_nothing(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a wrapper replaces the variable that loads the guard, no message is sent, and the process is ended."""
    monkeypatch.setattr(guard_proof, "LIMIT", 0.5)
    known = contract("acp")
    path = stage.executable(known)
    path.write_text(path.read_text().replace("\n", "\nexport NODE_OPTIONS=--no-warnings\n", 1))
    received = stage.open(known)
    assert "before its guard had an effect, so it got no prompt" in received.until(Lost).detail
    received.until(Gone)
    assert not (stage.folder / "run/protocol").exists()


def test_a_process_that_can_not_be_noted_is_ended(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a free descriptor its start time is unknown, so nobody could find it later."""
    started = []

    def unknown(pid: int) -> float:
        started.append(pid)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(engine_process, "start_time", unknown)
    received = stage.open(contract("acp"))
    assert "Too many open files" in received.until(Lost).detail
    received.until(Gone)
    assert started
    assert not any(map(is_alive, started))


def test_a_process_is_not_reaped_by_the_watch(stage: Stage) -> None:
    """Other child processes keep their exit codes while sticky processes are watched."""
    stage.opened(contract("app_server"))
    assert subprocess.run(["/bin/sh", "-c", "exit 7"], check=False).returncode == 7


def test_where_the_system_tells_of_no_exit_it_is_looked_at(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `os.waitid`, a kill is noticed just as fast."""
    monkeypatch.delattr(os, "waitid")
    received, opened = stage.opened(contract("app_server"), faults="child=works")
    before = time.monotonic()
    os.kill(opened.pid, signal.SIGKILL)
    received.until(Lost)
    assert received.at - before < AT_ONCE


@pytest.mark.long
@one_of_them
def test_an_oversized_line_is_dropped(stage: Stage, transport: str) -> None:
    """A line over 8 MiB is dropped, and the next line is read normally."""
    received, opened = stage.opened(contract(transport))
    assert stage.turn(received, f"fault: padding={9 * 2**20}").final_text == f"turn 1 of {opened.pid}"


def test_the_traces_hold_both_directions(stage: Stage) -> None:
    """The trace in the run's directory holds everything written and read, in order."""
    received, _ = stage.opened(contract("acp"))
    stage.turn(received, "go on")
    lines = (stage.folder / "run/protocol").read_text().splitlines()
    assert lines[0].split()[1] == ">"
    assert stage.messages("<")
    assert any('"go on"' in line for line in lines)


def test_the_command_is_kept_and_logged(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """The command and release are saved with the traces; the log shows the command quoted for a shell."""
    caplog.set_level(logging.DEBUG, "turngate_reference.server.transports")
    known = contract("acp")
    executable = str(stage.executable(known))
    interactive = PermissionMode(options=("--include-directories", "two words"), mode="default")
    stage.opened(replace(known, sticky=replace(known.sticky, interactive=interactive)))
    reported = json.loads((stage.folder / "run/command.json").read_text())
    assert reported == {"argv": [executable, "--acp", "--include-directories", "two words"], "version": known.version}
    assert f"{executable} --acp --include-directories 'two words'" in caplog.text


def test_traces_that_can_not_be_kept_are_our_loss(stage: Stage) -> None:
    """The engine is neither started nor blamed."""
    (stage.folder / "run").touch()
    received = stage.open(contract("acp"))
    assert received.until(Lost).ours


@pytest.mark.parametrize("fault", ["", "ignores-settings"])
def test_the_configuration_in_force_is_looked_at(stage: Stage, fault: str) -> None:
    """If a value below the key isn't allowed by the contract, the process is lost, and the detail names its place."""
    received = stage.open(at_known_release("opencode"), faults=fault)
    if fault:
        assert "* is allow" in received.until(Lost).detail
    else:
        received.until(Opened)


def test_a_sticky_engine_that_nobody_can_make_ask_is_refused(stage: Stage) -> None:
    """If the contract doesn't say how to switch asking on, nothing is started in mode interactive."""
    known = contract("acp")
    mute = replace(known, sticky=replace(known.sticky, interactive=None))
    received: ReceivedEvents = stage.open(mute)
    assert "the contract doesn't define how" in received.until(Lost).detail
    assert received.until(Gone).exit_code is None
