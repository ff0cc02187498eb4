"""The case of a warm wait on simulated engines, through the real server."""

from pathlib import Path

import pytest

from tests.probes import engines
from tests.probes import turns as t
from tests.probes.simulate.played import at_known_release
from turngate.contract.clauses import Result
from turngate_probes.server_level.cases import RESUMED_CASES, WARM_CASE
from turngate_probes.simulate.simulated_process import install

pytestmark = pytest.mark.long

LOOP = next(case for case in RESUMED_CASES if case.name == "loop")


@pytest.mark.parametrize("engine", ["gemini", "opencode"])
def test_a_kept_process_and_new_ones_share_a_session(engine: str, tmp_path: Path) -> None:
    """The clause passes, whether or not the engine can load headless sessions, and the first process was kept."""
    contract = at_known_release(engine)
    played = engines.play(install(contract, tmp_path / "engine"), tmp_path, LOOP, WARM_CASE, contract=contract)
    assert played.observed.stopped == {}
    result = played.judged()["server.warm-wait"]
    assert result.result is Result.PASS, result.detail
    turns = [played.observed.turn(f"warm/turn-{i}") for i in range(1, 6)]
    running = [{left.pid for left in turn.leftovers} for turn in turns]
    assert running[0] & running[1]
    assert bool(running[3]) is contract.sticky.loads_headless_sessions
    assert not running[4]
    assert [turn.resumed is None for turn in turns[:3]] == [True, True, False]


@pytest.mark.parametrize(
    "fault, why", [("forgets", "contains all earlier prompts"), ("changes-session", "SESSION_RESUME_FAILED")]
)
def test_a_kept_process_with_a_fault_is_caught(fault: str, why: str, tmp_path: Path) -> None:
    """A kept process that forgets, or that goes on in another session, fails the clause."""
    played = engines.play(install(t.CODEX, tmp_path / "engine", (fault,)), tmp_path, LOOP, WARM_CASE)
    result = played.judged()["server.warm-wait"]
    assert result.result is Result.FAIL
    assert why in result.detail
