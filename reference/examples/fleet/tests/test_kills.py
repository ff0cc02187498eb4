"""Two workers with two homes, killed in the middle of turns, and 200 runs: none is lost, and no reply is sent twice."""

import time
from collections import Counter
from collections.abc import Callable

import pytest
from conftest import Host
from turngate_fleet.runs import Fleet, Run

from turngate import TurnInput, UsageError

RUNS = 200
CALLS_PER_KILL = 30
ENDED = {"succeeded", "failed"}


class Killer:
    """Kills the worker of a host whenever its engine was called so many times more; the latest call then runs."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._noted = 0
        self.kills = 0

    def look(self) -> None:
        """Kill the worker if it is due, and start the next one."""
        begun = len(self._host.calls())
        if begun - self._noted >= CALLS_PER_KILL:
            self._noted = begun
            self._host.kill()
            self.kills += 1
            self._host.start()


def reply_twice(fleet: Fleet, run: Run) -> None:
    """Answer a question; a second answer is refused."""
    fleet.reply(run, f"first reply to {run.id}.")
    try:
        fleet.reply(run, f"second reply to {run.id}.")
    except UsageError:
        return
    raise AssertionError(run.id)


@pytest.mark.timeout(900)
def test_kills_lose_no_run_and_repeat_no_reply(host: Callable[[str], Host], fleet: Fleet) -> None:
    """Each run ends. Each reply that was accepted reached an engine once at most, and once if its run succeeded."""
    hosts = [host("one"), host("two")]
    killers = [Killer(each) for each in hosts]
    for each in hosts:
        each.start()
    door = TurnInput("codex", "Paint the door.", "", timeout=100)
    runs = {fleet.start(door) for _ in range(RUNS)}  # whoever is free takes the first turn
    ended, accepted = dict[str, Run](), set[str]()
    while len(ended) < RUNS:
        for run in (run for each in hosts for run in fleet.on_host(each.name) if run.id in runs):
            if run.state == "waiting_user" and run.id not in accepted:
                reply_twice(fleet, run)
                accepted.add(run.id)
            if run.state in ENDED:
                ended[run.id] = run
        for killer in killers:
            killer.look()
        time.sleep(0.05)
    assert all(each.calls() for each in hosts)
    calls = [call for each in hosts for call in each.calls()]
    reached = Counter({run: sum(f"reply to {run}." in call for call in calls) for run in runs})
    interrupted = [run for run in ended.values() if run.error]
    print(f"{len(interrupted)} interrupted, {len(accepted)} replies, {reached.total()} of them reached an engine")
    assert ended.keys() == runs
    assert {run: times for run, times in reached.items() if times > (run in accepted)} == {}
    assert {run.id for run in ended.values() if run.state == "succeeded" and reached[run.id] != 1} == set()
    other = {run.error for run in interrupted if not run.error.startswith("ORCHESTRATOR_RESTART_INTERRUPTED: ")}
    assert other == set()
    assert not any("second reply" in call for call in calls)
    assert sum(killer.kills for killer in killers) >= RUNS // CALLS_PER_KILL
