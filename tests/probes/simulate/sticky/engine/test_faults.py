"""Each fault of a simulated engine is visible in its messages, and changes nothing else."""

from contextlib import suppress
from pathlib import Path

import pytest

from tests.probes.simulate.played import at_known_release
from tests.probes.simulate.sticky.client import ENGINES, RawClient, calls
from tests.tables import each
from turngate_probes.simulate.faults import NONE, Faults
from turngate_probes.simulate.misbehaviour import OWN_PROMPT

ENDS = {"app_server": "turn/completed", "acp": "answer", "stream_json": "result"}
every_engine = each("engine", ENGINES)


def client(engine: str, root: Path, faults: Faults = NONE) -> RawClient:
    """Return a client of an engine whose model calls its tool in the first turn."""
    contract = at_known_release(engine)
    return RawClient(contract, root, (calls(contract), "one", "two"), faults=faults)


@every_engine
def test_without_a_fault_all_goes_well(engine: str, tmp_path: Path) -> None:
    """Without a fault the engine asks once, acts, answers twice in one session, and exits when its input ends."""
    run = client(engine, tmp_path)
    assert run.run() == 0
    assert (run.asked_for, run.touched, run.noise, run.stderr) == (1, True, 0, b"")
    assert "".join(run.texts()) == "onetwo"
    assert len(run.ids()) == 1
    assert [text for text in run.requests[-1] if text in {"first", "again"}] == ["first", "again"]


@every_engine
def test_it_dies_after_a_turn(engine: str, tmp_path: Path) -> None:
    """The engine exits after it has reported the end of the turn."""
    run = client(engine, tmp_path, Faults(dies_after_turn=True))
    assert run.run() == 1
    assert run.kinds()[-1] == ENDS[run.contract.sticky.transport]
    assert "".join(run.texts()) == "one"
    assert b"exited after its first turn" in run.stderr


@every_engine
def test_it_dies_in_a_turn(engine: str, tmp_path: Path) -> None:
    """The engine exits without a response and without a model request."""
    run = client(engine, tmp_path, Faults(dies_in_turn=True))
    assert run.run() == 1
    assert "".join(run.texts()) == ""
    assert run.requests == []
    assert b"exited during a turn" in run.stderr


@every_engine
def test_it_goes_on_after_the_end_of_its_input(engine: str, tmp_path: Path) -> None:
    """All turns run, and the engine doesn't exit when its input ends."""
    run = client(engine, tmp_path, Faults(ignores_termination=True))
    assert run.run() == "hangs"
    assert "".join(run.texts()) == "onetwo"


@every_engine
@each("allow", [True, False])
def test_it_asks_twice(engine: str, allow: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a case
    """Both permission requests are open at once, and the turn goes on after one decision for each."""
    run = client(engine, tmp_path, Faults(asks_twice=True))
    run.allow, run.together = allow, 2
    assert run.run() == 0
    assert (run.asked_for, run.touched) == (2, allow)
    assert run.texts()[-1]


@every_engine
def test_it_forgets(engine: str, tmp_path: Path) -> None:
    """The model request of the second turn holds only that turn."""
    run = client(engine, tmp_path, Faults(forgets=True))
    assert run.run() == 0
    assert [text for text in run.requests[-1] if text in {"first", "again", "one"}] == ["again"]


@every_engine
def test_it_acts_unasked(engine: str, tmp_path: Path) -> None:
    """The file is created without a permission request."""
    run = client(engine, tmp_path, Faults(acts_unasked=True))
    assert run.run() == 0
    assert (run.asked_for, run.touched) == (0, True)


@every_engine
def test_it_changes_its_session_id(engine: str, tmp_path: Path) -> None:
    """The engine reports two session ids, but the model gets the whole conversation."""
    run = client(engine, tmp_path, Faults(changes_session=True))
    assert run.run() == 0
    assert len(run.ids()) == 2
    assert "first" in run.requests[-1]


@every_engine
def test_it_prints_noise(engine: str, tmp_path: Path) -> None:
    """A line that is not JSON precedes each message, and the messages are unchanged."""
    run = client(engine, tmp_path, Faults(prints_noise=True))
    assert run.run() == 0
    assert run.noise == len(run.said)
    assert "".join(run.texts()) == "onetwo"


@every_engine
def test_it_dies_at_a_reply(engine: str, tmp_path: Path) -> None:
    """The engine exits when a message comes after its first turn, and not before."""
    run = client(engine, tmp_path, Faults(dies_at_reply=True, exit_code=7))
    assert run.run() == 7
    assert "".join(run.texts()) == "one"
    assert b"exited at a message" in run.stderr


@every_engine
def test_it_hides_its_session_id(engine: str, tmp_path: Path) -> None:
    """No message has the session id, and what else a message has stays."""
    run = client(engine, tmp_path, Faults(session_id="absent"))
    with suppress(KeyError):
        run.run()
    assert run.said
    assert run.ids() == []


@every_engine
def test_it_refuses_prompts(engine: str, tmp_path: Path) -> None:
    """The turn fails without a model request."""
    run = client(engine, tmp_path, Faults(refuses_prompt=True))
    assert run.run() == 0
    assert run.requests == []
    assert "busy" in str(run.said)


@every_engine
def test_it_prints_unknown_messages(engine: str, tmp_path: Path) -> None:
    """Each turn has a message of a kind that nobody knows, and goes on."""
    run = client(engine, tmp_path, Faults(padding=9))
    assert run.run() == 0
    assert str(run.said).count("x" * 9) == 2
    assert "".join(run.texts()) == "onetwo"


@every_engine
def test_it_loses_its_session(engine: str, tmp_path: Path) -> None:
    """The second turn fails, and the model is asked nothing."""
    run = client(engine, tmp_path, Faults(session="lost"))
    run.run()
    assert "two" not in "".join(run.texts())
    assert len(run.requests) == 2


@every_engine
def test_it_starts_a_fresh_session(engine: str, tmp_path: Path) -> None:
    """The second turn has another id, and the model gets only its prompt."""
    run = client(engine, tmp_path, Faults(session="fresh"))
    assert run.run() == 0
    assert len(run.ids()) == 2
    assert "first" not in run.requests[-1]


@every_engine
@each("faults", [Faults(crash=True), Faults(hang="during")])
def test_it_stops_within_an_answer(engine: str, faults: Faults, tmp_path: Path) -> None:
    """It ends or hangs in the middle of a line, before the end of its first turn is reported."""
    run = client(engine, tmp_path, faults)
    assert run.run() == "hangs"
    assert run.kinds()[-1] != ENDS[run.contract.sticky.transport]
    assert run.noise == 1


@every_engine
def test_it_exits_without_the_end_of_a_turn(engine: str, tmp_path: Path) -> None:
    """Everything but the last message is there, and the exit code is 0."""
    run = client(engine, tmp_path, Faults(omits_end=True))
    assert run.run() == 0
    last = run.said[-1]
    assert run.kinds()[-1] != ENDS[run.contract.sticky.transport] or "stopReason" not in last.get("result", {})
    assert run.noise == 0


@every_engine
def test_it_hangs_after_a_turn(engine: str, tmp_path: Path) -> None:
    """The first turn ends properly, and the next prompt is never read."""
    run = client(engine, tmp_path, Faults(hang="after"))
    assert run.run() == "hangs"
    assert "".join(run.texts()) == "one"


@every_engine
@pytest.mark.parametrize("faults", [Faults(omits_answer=True), Faults(blank_answer=True)], ids=["omits", "blank"])
def test_it_gives_no_answer(engine: str, faults: Faults, tmp_path: Path) -> None:
    """Both turns end properly, without text or with white space."""
    run = client(engine, tmp_path, faults)
    assert run.run() == 0
    assert "".join(run.texts()).strip() == ""
    assert run.kinds()[-1] == ENDS[run.contract.sticky.transport]


@every_engine
def test_it_goes_on_by_itself(engine: str, tmp_path: Path) -> None:
    """After each turn the engine sends the model a prompt of its own, and reports a turn that nobody asked for."""
    run = client(engine, tmp_path, Faults(goes_on_by_itself=True))
    assert run.run() == 0
    assert [OWN_PROMPT in map(str, request) for request in run.requests[-2:]] == [True, True]
