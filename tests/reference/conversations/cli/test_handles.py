"""`turngate handles`: list, show, prune; and where the data directory is."""

import json
from pathlib import Path

import pytest

from tests.reference import cli_env as d
from tests.reference.cli_env import Desk
from turngate_reference.data_dir import data_dir, locked


def test_the_list_is_newest_first(desk: Desk) -> None:
    """Each line holds handle, time, engine, state and the first words; what was used last comes first."""
    desk.engine("codex", d.codex("hi"))
    desk.engine("gemini", [["exit", 3]])
    first = desk.begin("codex", f"paint the\nhouse {'x' * 99}")
    desk.type("start", "gemini", "hello")
    assert desk.type("resume", first, "go on").code == 0
    said = desk.type("handles")
    top, second = said.out.splitlines()
    assert top.split()[0] == first
    assert top.split()[3:7] == ["codex", "answered", "paint", "the"]
    assert len(top) <= 110
    assert second.split()[3:] == ["gemini", "failed", "hello"]
    assert said.code == 0


def test_an_empty_list_is_no_error(desk: Desk) -> None:
    """Before the first conversation there is nothing to list, and nothing is made."""
    assert desk.type("handles") == (0, "", "")
    assert not desk.data.exists()


def test_the_list_as_json_holds_the_records(desk: Desk) -> None:
    """--json prints what show prints, as a list."""
    desk.engine("codex", d.codex("hi"))
    handle = desk.begin()
    assert json.loads(desk.type("handles", "--json").out) == [desk.record(handle)]
    assert json.loads(desk.type("handles", "show", handle[:5]).out) == desk.record(handle)


def test_show_names_what_is_missing(desk: Desk) -> None:
    """Show of a handle that is not there ends with 2."""
    assert desk.type("handles", "show", "zzzzzzzz").code == 2


def test_prune_removes_what_nobody_touched_for_so_long(desk: Desk) -> None:
    """Record, lock and run directory of old conversations go; the directory of --cwd and younger ones stay."""
    desk.engine("codex", d.codex("hi"))
    (desk.root / "project").mkdir()
    old, young = desk.begin("codex", "--cwd", "project", "hello"), desk.begin()
    desk.change(old, {"updatedAt": "2026-01-01T00:00:00+00:00"})
    said = desk.type("handles", "prune", "--older-than", "30d")
    assert (said.code, said.out) == (0, f"removed {old} (codex, 2026-01-01)\n")
    assert sorted(each.name for each in (desk.data / "handles").iterdir()) == [f"{young}.json", f"{young}.lock"]
    assert [each.name[-8:] for each in (desk.data / "runs").iterdir()] == [young]
    assert (desk.root / "project").is_dir()


def test_prune_keeps_what_is_in_use(desk: Desk) -> None:
    """A conversation whose attempt is under way stays, whatever its age, and who uses it is told."""
    desk.engine("codex", d.codex("hi"))
    handle = desk.begin()
    with locked(desk.data / "handles" / f"{handle}.lock", handle):
        said = desk.type("handles", "prune", "--older-than", "0h")
    assert said.err.startswith(f"kept: {handle} is in use by process ")
    assert Path(desk.record(handle)["runDirectory"]).is_dir()


def test_prune_removes_no_directory_that_is_not_ours(desk: Desk) -> None:
    """A record that names another directory as its run goes alone."""
    desk.engine("codex", d.codex("hi"))
    handle = desk.begin()
    elsewhere = {"runDirectory": str(desk.data / "runs" / ".."), "updatedAt": "2026-01-01T00:00:00+00:00"}
    desk.change(handle, elsewhere)
    assert desk.type("handles", "prune", "--older-than", "1w").code == 0
    assert (desk.data / "runs").is_dir()
    assert list((desk.data / "handles").iterdir()) == []


def test_prune_knows_its_directories_by_whatever_path(desk: Desk) -> None:
    """A run that was recorded by a link to the data directory goes with its record, and what a link leads to stays."""
    desk.engine("codex", d.codex("hi"))
    first, second = desk.begin(), desk.begin()
    (desk.root / "link").symlink_to(desk.data)
    old = {"updatedAt": "2026-01-01T00:00:00+00:00"}
    run_id = desk.record(first)["runId"]
    desk.change(first, old | {"runDirectory": str(desk.root / "link" / "runs" / run_id)})
    moved = Path(desk.record(second)["runDirectory"]).rename(desk.root / "moved")
    (desk.data / "runs" / desk.record(second)["runId"]).symlink_to(moved)
    desk.change(second, old | {"runDirectory": str(moved)})
    said = desk.type("handles", "prune", "--older-than", "1w")
    assert not (desk.data / "runs" / run_id).exists()
    assert said.err.startswith(f"kept: {second}: ")
    assert moved.is_dir()


@pytest.mark.parametrize("age", ["30", "d", "-1d", "1.5d", "30 d", "", "٣d"])
def test_prune_refuses_what_is_no_age(desk: Desk, age: str) -> None:
    """An age is a number and a unit."""
    assert desk.type("handles", "prune", "--older-than", age).code == 2


def test_the_data_directory_is_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The option comes before TURNGATE_DATA_DIR, that before the platform's place; an empty variable is none."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TURNGATE_DATA_DIR", "~/variable")
    assert data_dir(Path("/option")).root == Path("/option")
    (tmp_path / "link").symlink_to("variable")
    assert data_dir(tmp_path / "link" / "x").root == tmp_path / "variable" / "x"
    assert data_dir(None).root == tmp_path / "variable"
    monkeypatch.setattr("platformdirs.user_data_path", lambda name, appauthor: Path(f"/platform/{name}"))
    monkeypatch.setenv("TURNGATE_DATA_DIR", "")
    assert data_dir(None).root == Path("/platform/turngate")
    monkeypatch.delenv("TURNGATE_DATA_DIR")
    assert data_dir(None).root == Path("/platform/turngate")
