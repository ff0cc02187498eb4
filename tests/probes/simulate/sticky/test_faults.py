"""Each fault of a simulated engine is visible in its messages, and changes nothing else."""

from pathlib import Path

import pytest

from tests.probes.simulate.played import at_known_release
from tests.probes.simulate.sticky.client import ENGINES, RawClient, calls
from turngate import cli
from turngate_probes.simulate.sticky import faults

ENDS = {"app_server": "turn/completed", "acp": "answer", "stream_json": "result"}
every_engine = pytest.mark.parametrize("engine", ENGINES)


def client(engine: str, root: Path, *faulty: str) -> RawClient:
    """Return a client of an engine whose model calls its tool in the first turn."""
    contract = at_known_release(engine)
    return RawClient(contract, root, (calls(contract), "one", "two"), faults=faulty)


@every_engine
def test_without_a_fault_all_goes_well(engine: str, tmp_path: Path) -> None:
    """Without a fault the engine asks once, acts, answers twice in one session, and exits when its input ends."""
    run = client(engine, tmp_path)
    assert run.run() == 0
    assert (run.at_once, run.touched, run.noise, run.stderr) == (1, True, 0, b"")
    assert "".join(run.texts()) == "onetwo"
    assert len(run.ids()) == 1
    assert [text for text in run.requests[-1] if text in {"first", "again"}] == ["first", "again"]


@every_engine
def test_it_dies_after_a_turn(engine: str, tmp_path: Path) -> None:
    """The engine exits after it has reported the end of the turn."""
    run = client(engine, tmp_path, faults.DIES_AFTER_TURN)
    assert run.run() == 1
    assert run.kinds()[-1] == ENDS[run.contract.sticky.transport]
    assert "".join(run.texts()) == "one"
    assert b"exited after its first turn" in run.stderr


@every_engine
def test_it_dies_in_a_turn(engine: str, tmp_path: Path) -> None:
    """The engine exits without a response and without a model request."""
    run = client(engine, tmp_path, faults.DIES_IN_TURN)
    assert run.run() == 1
    assert "".join(run.texts()) == ""
    assert run.requests == []
    assert b"exited during a turn" in run.stderr


@every_engine
def test_it_goes_on_after_the_end_of_its_input(engine: str, tmp_path: Path) -> None:
    """All turns run, and the engine doesn't exit when its input ends."""
    run = client(engine, tmp_path, faults.IGNORES_TERMINATION)
    assert run.run() == "hangs"
    assert "".join(run.texts()) == "onetwo"


@every_engine
@pytest.mark.parametrize("allow", [True, False])
def test_it_asks_twice(engine: str, allow: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a case
    """Both permission requests are open at once, and the turn goes on after one decision for each."""
    run = client(engine, tmp_path, faults.ASKS_TWICE)
    run.allow = allow
    assert run.run() == 0
    assert (run.at_once, run.touched) == (2, allow)
    assert run.texts()[-1]


@every_engine
def test_it_forgets(engine: str, tmp_path: Path) -> None:
    """The model request of the second turn holds only that turn."""
    run = client(engine, tmp_path, faults.FORGETS)
    assert run.run() == 0
    assert [text for text in run.requests[-1] if text in {"first", "again", "one"}] == ["again"]


@every_engine
def test_it_acts_unasked(engine: str, tmp_path: Path) -> None:
    """The file is created without a permission request."""
    run = client(engine, tmp_path, faults.ACTS_UNASKED)
    assert run.run() == 0
    assert (run.at_once, run.touched) == (0, True)


@every_engine
def test_it_changes_its_session_id(engine: str, tmp_path: Path) -> None:
    """The engine reports two session ids, but the model gets the whole conversation."""
    run = client(engine, tmp_path, faults.CHANGES_SESSION)
    assert run.run() == 0
    assert len(run.ids()) == 2
    assert "first" in run.requests[-1]


@every_engine
def test_it_prints_noise(engine: str, tmp_path: Path) -> None:
    """A line that is not JSON precedes each message, and the messages are unchanged."""
    run = client(engine, tmp_path, faults.PRINTS_NOISE)
    assert run.run() == 0
    assert run.noise == len(run.said)
    assert "".join(run.texts()) == "onetwo"


def test_an_unknown_fault_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown fault is rejected with the known names before any output, wherever the option stands."""
    for words in (("--fault", "nope", "codex", "--install", "x"), ("codex", "--install", "x", "--fault", "nope")):
        assert cli.run(["simulate", *(str(tmp_path / "x") if word == "x" else word for word in words)]) == 2
        assert "'dies-after-turn'" in capsys.readouterr().err
    assert cli.run(["simulate", "codex", "--install", str(tmp_path), "--fault"]) == 2
    assert "requires an argument" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_every_fault_is_in_the_docs() -> None:
    """The docs list every fault with the name and description in the code."""
    page = (Path(__file__).parents[4] / "docs/test-your-orchestrator.md").read_text("utf-8")
    for name, words in faults.FAULTS.items():
        assert f"| `{name}` | {words} |" in page
