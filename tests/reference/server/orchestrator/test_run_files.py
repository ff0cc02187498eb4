"""Tests of where engines run: the operator's links are followed, other people's links are not."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.reference import cli_env as d
from tests.reference.server_env import ASK, ServerEnv, final
from turngate.contract import load
from turngate.errors import UsageError
from turngate_reference.data_dir import DataDir, data_dir
from turngate_reference.handle_record import read
from turngate_reference.server.requests import ApiError
from turngate_reference.states import State


@pytest.fixture(name="root")
def _root(tmp_path: Path) -> Path:
    """Provide a workspace root with one project."""
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    return root


@pytest.fixture(name="busy_house")
def _busy_house(closed_server_env: ServerEnv, root: Path) -> Iterator[ServerEnv]:
    """Provide a server with workspaces, whose only slot is in use until its engine is released."""
    closed_server_env.keep_session()
    closed_server_env.cli_env.engine("codex", d.codex("first", more=[["meet"]]), d.codex(final(x=1)))
    with closed_server_env.opened(workspace_root=root, slots=1):
        closed_server_env.create()
        closed_server_env.cli_env.meet()
        yield closed_server_env


@pytest.fixture(name="waiting")
def _waiting(closed_server_env: ServerEnv, root: Path) -> Iterator[ServerEnv]:
    """Provide a server with workspaces, whose engine asks once."""
    closed_server_env.keep_session()
    closed_server_env.cli_env.engine("codex", d.codex(ASK), d.codex(final(x=1)))
    with closed_server_env.opened(workspace_root=root):
        yield closed_server_env


def test_a_data_directory_behind_a_link_can_be_resumed_in(closed_server_env: ServerEnv, tmp_path: Path) -> None:
    """Runs can be resumed when a link names the data directory."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    server_env = closed_server_env
    server_env.settings = replace(server_env.settings, data=data_dir(tmp_path / "link" / "data"))
    server_env.keep_session()
    server_env.cli_env.engine("codex", d.codex(ASK), d.codex(final(x=1)))
    with server_env.opened():
        run_id, question = server_env.ask()
        assert server_env.run(run_id).run_directory.is_relative_to(tmp_path / "real" / "data")
        server_env.reply(run_id, question)
        server_env.wait(run_id, State.SUCCEEDED)


def test_a_path_that_was_written_down_with_a_link_still_leads_there(
    closed_server_env: ServerEnv, tmp_path: Path
) -> None:
    """Run directories that an earlier server recorded through a link are still found."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    server_env = closed_server_env
    server_env.settings = replace(server_env.settings, data=DataDir(tmp_path / "link" / "data"))
    server_env.keep_session()
    server_env.cli_env.engine("codex", d.codex(ASK), d.codex(final(x=1)))
    with server_env.opened():
        run_id, question = server_env.ask()
        server_env.reply(run_id, question)
        server_env.wait(run_id, State.SUCCEEDED)


def test_a_workspace_that_is_swapped_while_its_run_is_queued_is_noticed(busy_house: ServerEnv, root: Path) -> None:
    """No engine runs, and nothing is created, where the new link leads."""
    outside = root.parent / "outside"
    run_id = busy_house.create(workspace="a")
    (root / "a").rmdir()
    (root / "a").symlink_to(outside)
    busy_house.cli_env.release()
    error = busy_house.failed(run_id)
    assert (error.code, "workspace" in error.detail) == ("ENGINE_UNAVAILABLE", True)
    assert len(busy_house.cli_env.calls()) == 1
    assert not list(outside.iterdir())


@pytest.mark.parametrize("target", ["../outside", "../outside/new", "results", "."])
def test_artifacts_do_not_follow_a_link(busy_house: ServerEnv, root: Path, target: str) -> None:
    """A link `artifacts` is rejected, whether it leaves the workspace or not, and whether or not its target exists."""
    (root / "a" / "results").mkdir()
    (root / "a" / "artifacts").symlink_to(target)
    run_id = busy_house.create(workspace="a")
    busy_house.cli_env.release()
    error = busy_house.failed(run_id)
    assert error.code == "ENGINE_UNAVAILABLE"
    assert "artifacts is not a directory but a link" in error.detail
    assert not list((root.parent / "outside").iterdir())
    assert not list((root / "a" / "results").iterdir())
    assert len(busy_house.cli_env.calls()) == 1


def test_a_workspace_without_room_for_artifacts_is_to_blame(busy_house: ServerEnv, root: Path) -> None:
    """A file named `artifacts` is an error of the workspace, not of the server."""
    (root / "a" / "artifacts").touch()
    run_id = busy_house.create(workspace="a")
    busy_house.cli_env.release()
    error = busy_house.failed(run_id)
    assert error.code == "ENGINE_UNAVAILABLE"
    assert error.detail.startswith("the workspace can't be used: ")
    assert "not a directory but a file" in error.detail


@pytest.mark.parametrize("place", ["artifacts", "artifacts/HANDLE"])
@pytest.mark.parametrize("what", ["link", "file"])
def test_a_link_or_a_file_in_the_place_of_the_artifacts_stops_a_later_turn(
    waiting: ServerEnv, root: Path, place: str, what: str
) -> None:
    """A reply is refused, and the run waits until the place is free."""
    run_id, question = waiting.ask(workspace="a")
    folder = root / "a" / place.replace("HANDLE", waiting.run(run_id).handle)
    shutil.rmtree(folder)
    folder.touch() if what == "file" else folder.symlink_to("/")
    with pytest.raises(ApiError, match=f"WORKSPACE_UNAVAILABLE: .* not a directory but a {what}"):
        waiting.reply(run_id, question)
    assert waiting.run(run_id).state is State.WAITING_USER
    folder.unlink()
    waiting.reply(run_id, question)
    waiting.wait(run_id, State.SUCCEEDED)
    assert (folder.is_dir(), len(waiting.cli_env.calls())) == (True, 2)


def test_artifacts_that_were_deleted_get_a_new_directory(waiting: ServerEnv, root: Path) -> None:
    """The user may tidy up while the run waits."""
    run_id, question = waiting.ask(workspace="a")
    shutil.rmtree(root / "a" / "artifacts")
    waiting.reply(run_id, question)
    run = waiting.wait(run_id, State.SUCCEEDED)
    assert run.artifacts.is_dir()


def test_a_data_directory_whose_path_is_no_text_is_refused(closed_server_env: ServerEnv, tmp_path: Path) -> None:
    """The server reports it at startup and creates nothing."""
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    with pytest.raises(UsageError, match="valid UTF-8"):
        closed_server_env.open(data=DataDir(odd))
    assert not odd.exists()


def test_turns_read_a_contract_from_the_cache(server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a release has had a turn, its further turns and their records don't parse the contract's YAML."""
    server_env.cli_env.engine("codex", d.codex(final(x=1)))
    server_env.wait(server_env.create(), State.SUCCEEDED)
    parsed: list[str] = []
    monkeypatch.setattr(load, "parse", lambda _text, name, **_more: parsed.append(name))
    run = server_env.wait(server_env.create(), State.SUCCEEDED)
    assert read(DataDir(server_env.cli_env.data).record(run.handle)).session.value == d.SESSION
    assert not parsed
