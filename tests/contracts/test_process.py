"""Every recorded turn is replayed as a process and read while it runs."""

import signal
from functools import partial
from pathlib import Path

import pytest
from pytest_subprocess import FakeProcess

from tests.contracts.process.fake_tree import FakeTree, HangingTree, forbid_signals
from tests.longer import LEFT_TO_NIGHT
from turngate.contract import load
from turngate.model import Ended
from turngate.process import execution
from turngate.process.execution import ProcessOutcome, ProcessRequest, Stdin, Stop, run
from turngate.turn.read import TurnReader
from turngate_probes.harness.observations import Turn
from turngate_probes.record import replay
from turngate_probes.releases import recorded_releases

RELEASES = [(engine, version) for engine in load.engine_names() for version in recorded_releases.releases(engine)]
NEWEST = dict(RELEASES)  # versions are sorted
each_recorded_release = pytest.mark.parametrize(
    "engine,version",
    [pytest.param(*release, marks=() if NEWEST[release[0]] == release[1] else LEFT_TO_NIGHT) for release in RELEASES],
)
STDIN = {"open": Stdin.OPEN, "closed": Stdin.CLOSED}


def test_every_engine_has_a_recorded_release() -> None:
    """Every engine has recordings, so the test below covers it."""
    assert {engine for engine, _ in RELEASES} == set(load.engine_names())


@each_recorded_release
def test_a_recorded_turn_runs_and_reads_as_it_did(
    fp: FakeProcess, monkeypatch: pytest.MonkeyPatch, engine: str, version: str
) -> None:
    """Exit code, output, end and reading equal those of the recording; only recorded hangs are ended."""
    forbid_signals(monkeypatch)
    contract = load.contract(engine).at(version)
    turns = replay.replay(contract).turns
    assert turns
    for turn in turns.values():
        assert turn.exit_code is not None
        process = fp.register([*turn.argv], stdout=turn.stdout, stderr=turn.stderr, returncode=turn.exit_code)
        reader = TurnReader(contract, turn.mode, turn_index=turn.turn_index, resumed=turn.resumed)
        outcome = played(turn, reader, monkeypatch)
        assert (outcome.ended, outcome.exit_code) == (turn.ended, turn.exit_code), turn.name
        assert (outcome.stdout, outcome.stderr, outcome.dropped) == (turn.stdout, turn.stderr, 0), turn.name
        assert reader.finish(outcome.exit_code, ended=outcome.ended) == turn.reading, turn.name
        assert process.first_call
        ended = () if turn.ended is Ended.EXIT else (signal.SIGTERM,)
        assert process.first_call.received_signals() == ended, turn.name


def played(turn: Turn, reader: TurnReader, monkeypatch: pytest.MonkeyPatch) -> ProcessOutcome:
    """Run a turn as a process, and end it as it was ended in the recording."""

    def feed(stream: str, chunk: bytes) -> bool:
        reader.feed("stdout" if stream == "stdout" else "stderr", chunk)
        return reader.over and turn.ended is Ended.LINGERED

    stop = Stop()
    trees = {
        Ended.EXIT: FakeTree,
        Ended.TIMEOUT: HangingTree,
        Ended.LINGERED: HangingTree,
        Ended.STOPPED: partial(HangingTree, on_hang=stop.set),
    }
    monkeypatch.setattr(execution, "ProcessTree", trees[turn.ended])
    monkeypatch.setattr(execution, "EXIT_LIMIT", 0)
    request = ProcessRequest(
        turn.argv,
        Path("/"),
        {},
        stdin=STDIN.get(turn.stdin, turn.prompt.encode()),
        timeout=0 if turn.ended is Ended.TIMEOUT else 60,
    )
    return run(request, stop=stop, on_output=feed)
