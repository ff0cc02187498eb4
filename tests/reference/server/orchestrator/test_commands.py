"""What callers may do to runs, when they may, and that doing it twice changes nothing."""

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from tests.reference import cli_env as d
from tests.reference.server_env import ASK, House, final
from turngate_reference.server.api_errors import ApiError
from turngate_reference.server.states import State
from turngate_reference.server.store import runs


def test_a_repeated_create_is_one_run(house: House) -> None:
    """The same key and body give the same run; the same key with another body is refused."""
    house.desk.engine("codex", d.codex("ok"))
    first, second = house.create(key="k"), house.create(key="k")
    assert first == second
    assert sum(runs.counts(house.server.store).values()) == 1
    with pytest.raises(ApiError, match="IDEMPOTENCY_KEY_REUSED"):
        house.create("another", key="k")


def test_concurrent_creates_with_one_key_are_one_run(house: House) -> None:
    """Eight requests at once with one key leave one run and one directory."""
    house.desk.engine("codex", d.codex("ok"))
    gate = threading.Barrier(8)

    def create(_: int) -> str:
        gate.wait()
        return house.create(key="k")

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(create, range(8)))) == 1
    assert len(list((house.desk.data / "runs").iterdir())) == 1


def test_a_repeated_reply_is_one_resume(house: House) -> None:
    """The key is looked up before the state: the same answer comes even when the run has ended."""
    house.desk.engine("codex", d.codex(ASK), d.codex(final(x=1)))
    run_id, question = house.ask()
    first = house.reply(run_id, question, key="k")
    assert house.reply(run_id, question, key="k") == first
    house.wait(run_id, State.SUCCEEDED)
    assert house.reply(run_id, question, key="k") == first
    with pytest.raises(ApiError, match="IDEMPOTENCY_KEY_REUSED"):
        house.reply(run_id, question, "blue", key="k")
    assert len(house.desk.calls()) == 2


def test_of_many_replies_one_is_taken(house: House) -> None:
    """Of eight replies at once without a key one resumes the run; the others are told, and change nothing."""
    house.desk.engine("codex", d.codex(ASK), d.codex(final(x=1)))
    run_id, question = house.ask()
    gate = threading.Barrier(8)

    def reply(number: int) -> str:
        gate.wait()
        try:
            house.reply(run_id, question, str(number))
        except ApiError as refused:
            return refused.code
        return "taken"

    with ThreadPoolExecutor(8) as pool:
        answers = sorted(pool.map(reply, range(8)))
    house.wait(run_id, State.SUCCEEDED)
    assert answers == ["NOT_WAITING"] * 7 + ["taken"]
    assert len(house.desk.calls()) == 2


def test_a_stale_reply_changes_nothing(house: House) -> None:
    """A wrong interaction id is refused, and the run goes on waiting."""
    house.desk.engine("codex", d.codex(ASK))
    run_id, _ = house.ask()
    with pytest.raises(ApiError, match="INTERACTION_STALE"):
        house.server.commands.reply(run_id, {"interaction_id": "0", "response": "red"}, None)
    assert house.run(run_id).state is State.WAITING_USER
    with pytest.raises(ApiError, match="RUN_NOT_FOUND"):
        house.server.commands.reply("nobody", {"interaction_id": "0", "response": "red"}, None)


def test_cancel_ends_a_running_turn(house: House) -> None:
    """The run is canceled once its processes are gone; canceling again says the same."""
    house.desk.engine("codex", d.codex(ASK, more=[["meet"]]))
    run_id = house.create(execution_mode="interactive")
    pid = house.desk.meet()
    assert house.server.commands.cancel(run_id)["cancel_requested"]
    run = house.wait(run_id, State.CANCELED)
    assert not psutil.pid_exists(pid)
    assert run.error is None
    assert house.server.commands.cancel(run_id)["state"] == "canceled"


def test_cancel_ends_what_waits(house: House) -> None:
    """A waiting run is canceled at once, and takes no reply any more."""
    house.desk.engine("codex", d.codex(ASK))
    run_id, question = house.ask()
    assert house.server.commands.cancel(run_id)["state"] == "canceled"
    with pytest.raises(ApiError, match="NOT_WAITING"):
        house.reply(run_id, question)


def test_cancel_does_not_undo_an_end(house: House) -> None:
    """A run that has succeeded stays so."""
    house.desk.engine("codex", d.codex("ok"))
    run_id = house.create()
    house.wait(run_id, State.SUCCEEDED)
    with pytest.raises(ApiError, match="RUN_ENDED"):
        house.server.commands.cancel(run_id)


def test_slots_bound_what_runs_and_the_queue_is_fair(house: House) -> None:
    """With two slots held, the third and fourth run wait; they start in the order in which they came."""
    house.desk.engine("codex", d.codex("ok", more=[["meet"]]))
    made = [house.create(str(number)) for number in range(4)]
    for run_id in made[:2]:
        house.wait(run_id, State.RUNNING)
    assert [house.run(run_id).state for run_id in made[2:]] == [State.QUEUED] * 2
    assert house.server.dispatcher.held == 2
    assert house.server.commands.cancel(made[2])["state"] == "canceled"
    for run_id in made[:2]:
        house.server.commands.cancel(run_id)
    assert house.wait(made[3], State.RUNNING).turn_index == 1
    house.server.commands.cancel(made[3])
    house.wait(made[3], State.CANCELED)


def test_a_workspace_has_one_unfinished_run(closed_house: House, tmp_path: Path) -> None:
    """A second run in a directory is refused until the first has ended, by whatever name it is called."""
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (root / "link").symlink_to("a")
    closed_house.keep_session()
    closed_house.desk.engine("codex", d.codex(ASK))
    with closed_house.opened(workspace_root=root):
        run_id, _ = closed_house.ask(workspace="a")
        assert closed_house.desk.calls()[0]["cwd"] == str(root / "a")
        with pytest.raises(ApiError, match="WORKSPACE_BUSY"):
            closed_house.create(workspace=str(root / "link"))
        assert len(list((closed_house.desk.data / "runs").iterdir())) == 1
        closed_house.server.commands.cancel(run_id)
        closed_house.create(workspace="a")


@pytest.mark.parametrize("asked", ["..", "../outside", "/etc", "out", "missing", "file", ".", "a\0b"])
def test_workspaces_stay_below_their_root(closed_house: House, tmp_path: Path, asked: str) -> None:
    """Neither dots nor links nor absolute paths lead out of the root."""
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "outside").mkdir()
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "file").touch()
    closed_house.desk.engine("codex", d.codex(ASK))
    with closed_house.opened(workspace_root=root), pytest.raises(ApiError, match="WORKSPACE_REFUSED"):
        closed_house.create(workspace=asked)


def test_a_workspace_that_was_swapped_is_noticed(closed_house: House, tmp_path: Path) -> None:
    """A directory that is a link elsewhere by the time of the reply is not worked in."""
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (root / "b").mkdir()
    closed_house.keep_session()
    closed_house.desk.engine("codex", d.codex(ASK))
    with closed_house.opened(workspace_root=root):
        run_id, question = closed_house.ask(workspace="a")
        shutil.rmtree(root / "a")
        (root / "a").symlink_to("b")
        closed_house.reply(run_id, question)
        assert closed_house.failed(run_id)["code"] == "SESSION_RESUME_FAILED"
        assert len(closed_house.desk.calls()) == 1


def test_without_a_root_there_are_no_workspaces(house: House) -> None:
    """A server that was given no root says so."""
    house.desk.engine("codex", d.codex(ASK))
    with pytest.raises(ApiError, match="WORKSPACE_REFUSED"):
        house.create(workspace="a")


def test_unknown_and_absent_engines_are_told_apart(house: House) -> None:
    """An engine without a contract, and one that is not installed."""
    with pytest.raises(ApiError, match="UNKNOWN_ENGINE"):
        house.create(engine="/bin/sh")
    with pytest.raises(ApiError, match="ENGINE_NOT_INSTALLED"):
        house.create(engine="gemini")


def test_options_that_nothing_is_known_of_are_refused(house: House) -> None:
    """An option that the contract can't place is named."""
    house.desk.engine("codex", d.codex(ASK))
    with pytest.raises(ApiError, match=r"OPTION_REFUSED.*--frobnicate"):
        house.create(engine_options=["--frobnicate"])
    assert not list((house.desk.data / "runs").glob("*"))


@pytest.mark.parametrize(
    "schema", [{"type": "no such"}, {"$ref": "http://127.0.0.1:9/x"}, {"$ref": "#/nowhere"}, {"pattern": "("}]
)
def test_output_schemas_that_can_not_be_used_are_refused(house: House, schema: dict[str, str]) -> None:
    """A schema that is invalid or refers outside is refused, and nothing is fetched."""
    house.desk.engine("codex", d.codex(ASK))
    with pytest.raises(ApiError, match="INVALID_OUTPUT_SCHEMA"):
        house.create(output_schema=schema)
