"""A simulated process does what its contract says: how it is made to ask, what it takes, where its session lies."""

import json
from pathlib import Path

import pytest

from tests.probes.simulate.played import SimulatedMachine, at_known_release
from tests.probes.simulate.sticky.client import ENGINES, RawClient, calls
from turngate.contract.launch import PermissionMode
from turngate_probes.simulate.backend import Failed
from turngate_probes.simulate.printing import simulation

every_engine = pytest.mark.parametrize("engine", ENGINES)


def client(engine: str, root: Path, stance: PermissionMode | None = None) -> RawClient:
    """Return a client of an engine whose model calls its tool in the only turn."""
    contract = at_known_release(engine)
    return RawClient(contract, root, (calls(contract), "one"), ("first",), stance=stance)


@pytest.mark.parametrize(
    "engine, stance",
    [
        ("codex", PermissionMode(session={"approvalPolicy": "never", "sandbox": "workspace-write"})),
        ("opencode", PermissionMode()),
        ("qwen", PermissionMode()),
    ],
)
def test_what_is_not_made_to_ask_acts(engine: str, stance: PermissionMode, tmp_path: Path) -> None:
    """By the fields of its session, its environment or the mode that it starts in."""
    run = client(engine, tmp_path, stance)
    assert run.run() == 0
    assert (run.at_once, run.touched) == (0, True)


def test_what_has_nobody_to_ask_refuses(tmp_path: Path) -> None:
    """Without the option that names who is asked nothing is done, and the model learns that."""
    run = client("claude", tmp_path, PermissionMode(mode="default"))
    assert run.run() == 0
    assert (run.at_once, run.touched) == (0, False)
    assert run.requests[-1][-1] == "the user declined"


@every_engine
def test_a_refused_action_is_not_done(engine: str, tmp_path: Path) -> None:
    """Where the contract says so the turn ends with it, else the agent answers."""
    run = client(engine, tmp_path)
    run.allow = False
    assert run.run() == 0
    assert not run.touched
    assert run.texts()[-1:] == (["one"] if engine not in {"opencode", "qwen"} else [""])


@every_engine
def test_a_tool_that_there_is_none_of_is_not_asked_for(engine: str, tmp_path: Path) -> None:
    """The model learns that there is no such tool."""
    run = client(engine, tmp_path)
    run.answers = (calls(run.contract, "no_such_tool"), "one")
    assert run.run() == 0
    assert (run.at_once, run.touched) == (0, False)
    assert run.requests[-1][-1] == "there is no tool no_such_tool"


def test_an_action_that_fails_is_told(tmp_path: Path) -> None:
    """To the model, and to the client; the turn goes on."""
    run = client("codex", tmp_path)
    (tmp_path / "work/touched.txt").mkdir(parents=True)
    assert run.run() == 0
    assert "can't be written" in run.requests[-1][-1]
    assert '"declined"' in json.dumps(run.said)
    assert run.texts() == ["one"]


@pytest.mark.parametrize("engine", [engine for engine in ENGINES if at_known_release(engine).sticky.same_id])
def test_a_headless_turn_resumes_its_session(engine: str, tmp_path: Path) -> None:
    """Once the process has ended, by the same id and with all that was said."""
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
    """The client learns why, and the next turn goes well."""
    run = client(engine, tmp_path)
    run.answers, run.prompts = (Failed("401", "key refused", 401), "two"), ("first", "again")
    assert run.run() == 0
    assert "key refused" in json.dumps(run.said)
    assert "".join(run.texts()).endswith("two")


def test_what_the_contract_lets_hang_hangs(tmp_path: Path) -> None:
    """A failure that hangs a headless turn hangs this one too."""
    run = client("gemini", tmp_path)
    run.answers = (Failed("429", "slow down", 429),)
    assert run.run() == "hangs"


@every_engine
def test_options_that_it_does_not_take_are_refused(engine: str, tmp_path: Path) -> None:
    """As the engine refuses them headlessly, before it says a word."""
    run = client(engine, tmp_path)
    assert run.run("--no-such-option") == simulation(run.contract).usage.exit_code
    assert run.said == []


@pytest.mark.parametrize("engine, option", [("gemini", "--model"), ("claude", "--model"), ("qwen", "--model")])
def test_a_model_among_the_options_is_asked(engine: str, option: str, tmp_path: Path) -> None:
    """The model is asked by that name."""
    run = client(engine, tmp_path)
    assert run.run(option, "m-1") == 0
    assert "m-1" in {request.model for request in run.asked}


def test_an_engine_that_keeps_sessions_of_its_own_leaves_none(tmp_path: Path) -> None:
    """A headless turn finds nothing."""
    run = client("iflow", tmp_path)
    assert run.contract.sticky.own_store
    assert run.run() == 0
    assert not [file for file in (tmp_path / "home").rglob("*") if file.is_file()]
