"""Tests that the rounds find broken promises, and that the seed determines their plans."""

import itertools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tools.chaos.__main__ import Rotation
from tests.tools.chaos.plan import COUNTING, FAULTS, HOSTILE, Round, plan
from tests.tools.chaos.rounds import RoundResult

ROOT = Path(__file__).parents[2]


def chaos(*args: str) -> subprocess.Popen[str]:
    """Start the command."""
    argv = (sys.executable, "-m", "tests.tools.chaos", "--seed", "7", "--jobs", "2", *args)
    return subprocess.Popen(
        argv, cwd=ROOT, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    )


def test_a_seed_draws_the_same_rounds() -> None:
    """A round depends only on the seed and its number."""
    assert [plan(7, number) for number in range(60)] == [plan(7, number) for number in range(60)]
    assert plan(7, 5) != plan(8, 5)


def test_all_faults_and_engines_are_drawn() -> None:
    """The short form covers every fault, every misbehaving engine, both profiles and both signals."""
    drawn = [plan(7, number) for number in range(COUNTING, 200)]
    assert {planned.fault for planned in drawn} == {"", *FAULTS}
    assert {planned.interruption for planned in drawn} == {"", "SIGKILL", "SIGTERM"}
    runs = [run for planned in drawn for run in planned.runs]
    assert {run.profile for run in runs} == {None, "resumable", "sticky_process"}
    words = {run.model or run.turns[0].split()[0] for run in runs if run.name == "bad"}
    assert words == {how.split()[0] for how in HOSTILE}
    assert {run.cancel for run in runs} == {"", "queued", "running", "waiting_user"}


def test_each_step_is_visited_in_turn() -> None:
    """Every second round targets the least targeted step; its first occurrence gets both signals before its second."""
    rotation = Rotation(7)
    rotation.learn(RoundResult(plan(7, 0), ["one", "two"], visited=False, servers=1, broken=[], folder=None, seconds=0))
    aimed = [rotation.draw(number) for number in range(4, 12, 2)]
    targets = [(planned.target.step, planned.target.nth) for planned in aimed if planned.target]
    assert sorted(targets) == [("one", 1), ("one", 1), ("two", 1), ("two", 1)]
    assert {targets[0], targets[1]} == {("one", 1), ("two", 1)}
    assert [planned.interruption for planned in aimed] == ["SIGKILL", "SIGKILL", "SIGTERM", "SIGTERM"]
    assert all(planned.runs == plan(7, 0).runs for planned in aimed)


def first(wanted: Callable[[Round], bool]) -> str:
    """Return the number of the first round without a fault that meets the condition."""
    rounds = (plan(7, number) for number in itertools.count(COUNTING))
    return next(str(planned.number) for planned in rounds if not planned.fault and wanted(planned))


def has_repeated_reply(planned: Round) -> bool:
    """Whether a reply to a resumable run is repeated before anything is interrupted."""
    runs = (run for run in planned.runs if run.profile == "resumable" and run.again)
    late = planned.interrupted_after is None
    return late and any(run.state == "succeeded" and not run.left and not run.cancel for run in runs)


def waits_when_killed(planned: Round) -> bool:
    """Whether the server is killed while a sticky run waits."""
    killed = planned.interruption == "SIGKILL" and planned.interrupted_after is None
    return killed and any(run.left and run.profile == "sticky_process" for run in planned.runs)


@pytest.mark.long
@pytest.mark.nightly
@pytest.mark.parametrize(
    "sabotage, broken, wanted",
    [
        ("twice", "nothing is executed twice", has_repeated_reply),
        ("no-idempotency", "the same reply with its key gets the same answer", has_repeated_reply),
        ("no-recovery", "a run ends as it must", waits_when_killed),
    ],
)
def test_a_broken_promise_is_noticed(sabotage: str, broken: str, wanted: Callable[[Round], bool]) -> None:
    """The exit code is 1, and the output names the promise, the seed and how to repeat the round."""
    number = first(wanted)
    with chaos("--sabotage", sabotage, "--only", number) as process:
        said, _ = process.communicate()
    assert process.returncode == 1
    assert said.startswith("seed 7, 1 rounds")
    assert f" of seed 7: {broken}" in said
    assert f"again: python -m tests.tools.chaos --seed 7 --only {number}" in said
    kept = Path(said.partition("data and log: ")[2].splitlines()[0])
    assert (kept / "data" / "turngate.db").is_file()
    shutil.rmtree(kept)


@pytest.mark.long
def test_an_interrupt_ends_all() -> None:
    """Ctrl-C prints the results so far and exits with 130."""
    with chaos("--rounds", "200") as process:
        assert process.stdout
        assert process.stdout.readline().startswith("seed 7, 200 rounds")
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate()
    assert process.returncode == 130
    assert said.endswith("interrupted: all servers and engines were ended\n")
