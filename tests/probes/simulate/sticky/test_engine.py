"""A simulated process follows its contract: how it is made to ask, what it accepts, where its session is stored."""

import json
from pathlib import Path

import pytest

from tests.probes.simulate.played import SimulatedMachine, at_known_release
from tests.probes.simulate.sticky.client import ENGINES, RawClient, calls
from tests.tables import each
from turngate.contract.launch import PermissionMode
from turngate_probes.simulate.backend import Failed
from turngate_probes.simulate.printing import simulation

every_engine = each("engine", ENGINES)


def client(engine: str, root: Path, approval: PermissionMode | None = None) -> RawClient:
    """Return a client of an engine whose model calls its tool in the only turn."""
    contract = at_known_release(engine)
    return RawClient(contract, root, (calls(contract), "one"), ("first",), approval=approval)


@pytest.mark.parametrize(
    "engine, approval",
    [
        ("codex", PermissionMode(session={"approvalPolicy": "never", "sandbox": "read-only"})),
        ("opencode", PermissionMode()),
        ("qwen", PermissionMode()),
    ],
)
def test_what_is_not_made_to_ask_acts(engine: str, approval: PermissionMode, tmp_path: Path) -> None:
    """Without the session fields, environment or mode that make it ask, the engine acts."""
    run = client(engine, tmp_path, approval)
    assert run.run() == 0
    assert (run.asked_for, run.touched) == (0, True)


def test_what_has_nobody_to_ask_refuses(tmp_path: Path) -> None:
    """Without the option that names who is asked, nothing is done, and the model is told."""
    run = client("claude", tmp_path, PermissionMode(mode="default"))
    assert run.run() == 0
    assert (run.asked_for, run.touched) == (0, False)
    assert "you haven't granted it yet" in run.requests[-1][-1]


@every_engine
def test_a_refused_action_is_not_done(engine: str, tmp_path: Path) -> None:
    """A denied action isn't done. As the contract says, the turn ends or the agent answers."""
    run = client(engine, tmp_path)
    run.allow = False
    assert run.run() == 0
    assert not run.touched
    assert run.texts()[-1:] == (["one"] if engine not in {"opencode", "qwen"} else [""])


@every_engine
def test_a_tool_that_there_is_none_of_is_not_asked_for(engine: str, tmp_path: Path) -> None:
    """The model is told that an unknown tool doesn't exist, and nobody is asked."""
    run = client(engine, tmp_path)
    run.answers = (calls(run.contract, "no_such_tool"), "one")
    assert run.run() == 0
    assert (run.asked_for, run.touched) == (0, False)
    assert run.requests[-1][-1] == "there is no tool no_such_tool"


def test_an_action_that_fails_is_told(tmp_path: Path) -> None:
    """A failed action is reported to the model and the client, and the turn goes on."""
    run = client("codex", tmp_path)
    (tmp_path / "work/touched.txt").mkdir(parents=True)
    assert run.run() == 0
    assert "can't be written" in run.requests[-1][-1]
    assert '"declined"' in json.dumps(run.said)
    assert run.texts() == ["one"]


@each("engine", [engine for engine in ENGINES if at_known_release(engine).sticky.keeps_session_id])
def test_a_headless_turn_resumes_its_session(engine: str, tmp_path: Path) -> None:
    """After the process has ended, a headless turn resumes its session by the same id, with the whole conversation."""
    run = client(engine, tmp_path)
    assert run.run() == 0
    machine = SimulatedMachine(tmp_path)
    (handle,) = run.ids()
    resumed = machine.resume(run.contract, handle)
    assert resumed.exit_code == 0
    assert [message["content"] for message in resumed.requests[0].messages if message["role"] == "user"] == [
        "first",
        "again",
    ]


@every_engine
def test_a_failing_backend_ends_the_turn_alone(engine: str, tmp_path: Path) -> None:
    """A failing backend ends the turn and the client gets the reason; the next turn succeeds."""
    run = client(engine, tmp_path)
    run.answers, run.prompts = (Failed("401", "key refused", 401), "two"), ("first", "again")
    assert run.run() == 0
    assert "key refused" in json.dumps(run.said)
    assert "".join(run.texts()).endswith("two")


def test_what_the_contract_lets_hang_hangs(tmp_path: Path) -> None:
    """A backend failure that hangs a headless turn hangs a sticky process too."""
    run = client("gemini", tmp_path)
    run.answers = (Failed("429", "slow down", 429),)
    assert run.run() == "hangs"


@every_engine
def test_options_that_it_does_not_take_are_refused(engine: str, tmp_path: Path) -> None:
    """Unknown options are rejected before the first message, with the same error as in a headless turn."""
    run = client(engine, tmp_path)
    assert run.run("--no-such-option") == simulation(run.contract).usage.exit_code
    assert run.said == []


@pytest.mark.parametrize("engine, option", [("gemini", "--model"), ("claude", "--model"), ("qwen", "--model")])
def test_a_model_among_the_options_is_asked(engine: str, option: str, tmp_path: Path) -> None:
    """The model is requested by the name in the options."""
    run = client(engine, tmp_path)
    assert run.run(option, "m-1") == 0
    assert "m-1" in {request.model for request in run.asked}


def test_an_engine_that_keeps_sessions_of_its_own_leaves_none(tmp_path: Path) -> None:
    """A sticky engine with a separate session store leaves no files in HOME for a headless turn to find."""
    run = client("iflow", tmp_path)
    assert run.contract.sticky.private_store
    assert run.run() == 0
    assert not [file for file in (tmp_path / "home").rglob("*") if file.is_file()]
