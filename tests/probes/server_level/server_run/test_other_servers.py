"""Servers that are not the reference server: a good one, and copies of it that each break one promise."""

import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.probes import engines
from tests.probes import turns as t
from turngate.contract.clauses import Result
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.harness.runner import CaseRunner
from turngate_probes.probe_settings import resumed_clauses
from turngate_probes.server_level import server_run
from turngate_probes.server_level.cases import RESUMED_CASES
from turngate_probes.simulate.simulated_process import install

APP = Path(__file__).parents[4] / "reference/examples/minimal/app.py"


def play(folder: Path, app: Path, *names: str) -> engines.Spectator:
    """Play these cases, or all, on a server of `app` with a simulated codex."""
    cases = [case for case in RESUMED_CASES if not names or case.name in names]
    spectator, runner = engines.Spectator(t.CODEX), CaseRunner.of(folder / "sandboxes", 2, Interrupt())
    executable = install(t.CODEX, folder / "engine")
    replace(runner, server=(sys.executable, str(app))).play(t.CODEX, executable, cases, spectator)
    return spectator


@pytest.mark.long
def test_the_minimal_server_passes_every_clause_about_resumed_turns(tmp_path: Path) -> None:
    """It has no token and no list of turns, gives engines only what their contract lists, and saves no output."""
    spectator = play(tmp_path, APP)
    assert spectator.observed.stopped == {}
    results = {name: (result.result.value, result.detail) for name, result in spectator.judged().items()}
    assert set(results) == set(resumed_clauses())
    assert {result for result, _ in results.values()} == {Result.PASS.value}, results


@pytest.mark.long
@pytest.mark.parametrize(
    "good,bad,cases,broken",
    [
        ('abort(Response(before["answer"]', 'print(Response(before["answer"]', "loop one-reply", "server.one-reply"),
        ('"final_data": output', '"final_data": {} and output', "loop", "server.final-data"),
        ('"engine_session_handle": output["session"]', '"engine_session_handle": None', "loop", "server.waits"),
    ],
)
def test_a_broken_promise_is_seen(good: str, bad: str, cases: str, broken: str, tmp_path: Path) -> None:
    """The clause about it fails."""
    code = APP.read_text("utf-8")
    assert good in code
    (tmp_path / "app.py").write_text(code.replace(good, bad), "utf-8")
    assert broken in engines.failing(play(tmp_path, tmp_path / "app.py", *cases.split()).judged())


@pytest.mark.long
def test_a_server_that_waits_for_the_deadline_does_not_cancel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stops nothing, and calls the run canceled at the end of its turn, in a time that is 20 times as fast."""
    code = APP.read_text("utf-8")
    for good, bad in (
        ("if stop := self._playing.get(run):", "if stop := None:"),
        ('"timeout": seconds', '"timeout": seconds / 20'),
    ):
        assert good in code
        code = code.replace(good, bad)
    (tmp_path / "app.py").write_text(code, "utf-8")
    limit = server_run.TURN_LIMIT
    monkeypatch.setattr(server_run, "SPARE", limit / 20 + 4 - limit)
    assert "server.cancel" in engines.failing(play(tmp_path, tmp_path / "app.py", "cancel").judged())


def test_a_server_that_never_says_where_it_is_stops_the_case(tmp_path: Path) -> None:
    """The case tells how the server ended."""
    app = tmp_path / "app.py"
    app.write_text("raise SystemExit('no port is free')\n")
    stopped = play(tmp_path, app, "loop").observed.stopped["loop"]
    assert "no port is free" in str(stopped)
