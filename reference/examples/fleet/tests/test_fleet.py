"""What the example promises: hosts, waits, kills and cancels."""

from collections.abc import Callable

import psutil
import psycopg
import pytest
from conftest import Host
from turngate_fleet.runs import Fleet

from turngate import TurnInput, UsageError

MakeHost = Callable[[str], Host]
RUNS = 8  # so many that two hosts would share them
ASK = TurnInput("codex", "Which colour?", "", timeout=100)
# prints its session, and goes on until it is ended
ENDLESS = """#!/bin/sh
[ "$1" = --version ] && echo "codex-cli 0.169.0" && exit
cat > "$HOME/prompt" && mv "$HOME/prompt" "$HOME/calls/1.call"
echo $$ > "$HOME/pid.new" && mv "$HOME/pid.new" "$HOME/pid"
exec sleep 1000
"""


def endless(host: Host) -> None:
    """Replace the engine of a host."""
    (host.home / "bin/codex").write_text(ENDLESS)


def pid_of_engine(host: Host) -> int:
    """Wait until the endless engine runs, and return its process id."""
    file = host.home / "pid"
    while not file.exists():
        assert host.worker
        assert host.worker.poll() is None
    return int(file.read_text())


def test_a_run_waits_without_a_worker_and_goes_on_where_its_session_is(host: MakeHost, fleet: Fleet) -> None:
    """While it waits, no worker runs; the reply goes to the host of the first turn, and not to another one."""
    first, other = host("first"), host("other")
    first.start()
    run = fleet.wait(fleet.start(ASK, first.name))
    assert (run.state, run.host, run.turn) == ("waiting_user", first.name, 1)
    first.stop()
    other.start()
    assert fleet.find(run.id).state == "waiting_user"
    fleet.reply(run, "blue")
    ran = fleet.wait(fleet.start(ASK, other.name))
    assert (ran.host, fleet.find(run.id).state) == (other.name, "queued")
    first.start()
    ended = fleet.wait(run.id, run.turn)
    assert (ended.state, ended.host) == ("succeeded", first.name)
    assert ended.output
    assert ended.output.result.final_data == {"colour": "blue"}
    assert not any("The user's reply:" in call for call in other.calls())


def test_a_question_is_answered_once(host: MakeHost, fleet: Fleet) -> None:
    """The second reply is refused, and so is one to a run that has ended."""
    here = host("here")
    here.start()
    run = fleet.wait(fleet.start(ASK, here.name))
    fleet.reply(run, "red")
    with pytest.raises(UsageError, match="already answered"):
        fleet.reply(run, "blue")
    ended = fleet.wait(run.id, run.turn)
    with pytest.raises(UsageError, match="is succeeded and waits for no reply"):
        fleet.reply(ended, "blue")
    assert sum("The user's reply:" in call for call in here.calls()) == 1


def test_a_turn_whose_worker_was_killed_fails_and_its_engine_ends(host: MakeHost, fleet: Fleet) -> None:
    """The engine is called once; the next life of the worker ends it, and fails the turn with the reason."""
    here = host("here")
    endless(here)
    here.start()
    run = fleet.start(ASK, here.name)
    engine = psutil.Process(pid_of_engine(here))
    here.kill()
    assert engine.is_running()
    here.start()
    ended = fleet.wait(run)
    assert (ended.state, ended.error) == (
        "failed",
        "ORCHESTRATOR_RESTART_INTERRUPTED: the worker was stopped or killed during the turn",
    )
    assert not engine.is_running() or engine.status() == psutil.STATUS_ZOMBIE
    assert len(here.calls()) == 1


def test_a_turn_that_ended_as_its_worker_was_killed_stays_on_its_host(
    host: MakeHost, fleet: Fleet, database: str
) -> None:
    """Its output was recorded, its end was not; no other host takes it, so the reply finds the session."""
    here, other = host("here"), host("other")
    here.start()
    runs = [fleet.wait(fleet.start(ASK)) for _ in range(RUNS)]
    here.kill()
    with psycopg.connect(database) as connection:
        unfinished = "UPDATE dbos.workflow_status SET status = 'PENDING', output = NULL WHERE workflow_uuid = ANY(%s)"
        connection.execute(unfinished, ([f"{run.id}.1" for run in runs],))
    other.start()
    here.start()
    for run in runs:
        waiting = fleet.wait(run.id)
        assert (waiting.state, waiting.host, waiting.output) == ("waiting_user", here.name, run.output)
        fleet.reply(waiting, "blue")
    assert {fleet.wait(run.id, run.turn).error for run in runs} == {""}


def test_a_worker_that_is_stopped_ends_its_engines(host: MakeHost, fleet: Fleet) -> None:
    """Its turn is interrupted, as the next life of the worker says."""
    here = host("here")
    endless(here)
    here.start()
    run = fleet.start(ASK, here.name)
    engine = psutil.Process(pid_of_engine(here))
    here.stop()
    assert not engine.is_running()
    here.start()
    assert fleet.wait(run).error.startswith("ORCHESTRATOR_RESTART_INTERRUPTED: ")


def test_the_runs_of_a_lost_host_end_with_the_reason(host: MakeHost, fleet: Fleet) -> None:
    """One that waits, one with a reply in the queue, and one in the middle of a turn; none starts afresh."""
    lost, other = host("lost"), host("other")
    lost.start()
    waiting, replied = (fleet.wait(fleet.start(ASK, lost.name)) for _ in range(2))
    endless(lost)
    middle = fleet.start(ASK, lost.name)
    pid = pid_of_engine(lost)
    refused = other.run("gone", lost.name)
    assert (refused.returncode, f"a worker named {lost.name} is running" in refused.stderr) == (1, True)
    lost.kill()
    psutil.Process(pid).kill()
    fleet.reply(replied, "blue")
    assert other.run("gone", lost.name).returncode == 0
    for run in (waiting.id, replied.id, middle):
        ended = fleet.find(run)
        assert (ended.state, ended.error.partition(":")[0]) == ("failed", "SESSION_RESUME_FAILED")
        assert f"the host {lost.name}, which has the session, is gone" in ended.error
    assert other.calls() == []


def test_a_canceled_turn_ends_its_engine(host: MakeHost, fleet: Fleet) -> None:
    """The run is canceled, and the worker takes further runs."""
    here = host("here")
    endless(here)
    here.start()
    run = fleet.start(ASK, here.name)
    engine = psutil.Process(pid_of_engine(here))
    fleet.cancel(fleet.find(run))
    assert psutil.wait_procs([engine], timeout=60)[1] == []
    assert fleet.find(run).state == "canceled"


def test_a_host_without_the_engine_says_so(host: MakeHost, fleet: Fleet) -> None:
    """The run fails with the reason."""
    here = host("here")
    (here.home / "bin/codex").unlink()
    here.start()
    ended = fleet.wait(fleet.start(ASK, here.name))
    assert (ended.state, "not installed" in ended.error) == ("failed", True)


def test_a_second_worker_of_one_name_is_refused(host: MakeHost, fleet: Fleet) -> None:
    """Two would end each other's engines."""
    here = host("here")
    here.start()
    fleet.wait(fleet.start(ASK, here.name))
    second = here.run("worker", here.name)
    assert (second.returncode, second.stderr) == (1, f"fleet: a worker named {here.name} is running\n")
