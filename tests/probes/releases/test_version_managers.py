"""What the shims of version managers would run in a folder, read from files of the layout of the real ones."""

import os
from pathlib import Path

import pytest

from tests.fakes.version_manager import MANAGERS, VersionManager
from tests.tables import each
from turngate import load_contract
from turngate.process.installed_release import version_in_folder
from turngate_probes.releases.version_managers import chosen, manager_of

CODEX = load_contract("codex")


def read(manager: VersionManager, folder: Path) -> str | None:
    """Return the release that is read for a folder; None if it isn't known."""
    kind = manager_of(manager.shim)
    assert kind == manager.kind
    choice = chosen(kind, manager.shim, CODEX, folder)
    return choice.version if choice else None


@pytest.mark.parametrize("kind", MANAGERS)
def test_what_is_read_is_what_the_shim_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """The same release is read as runs, where the project decides and where the user does."""
    manager = VersionManager(kind, tmp_path / "managed")
    monkeypatch.setenv("HOME", str(manager.home))
    manager.choose("0.169.0")
    folders = [tmp_path / "plain", tmp_path / "project"]
    for folder in folders:
        folder.mkdir()
    manager.choose("0.147.0", folders[1])
    env = {"PATH": os.defpath, "HOME": str(manager.home)}
    runs = [version_in_folder(CODEX, manager.shim, folder, env) for folder in folders]
    assert [read(manager, folder) for folder in folders] == runs == ["0.169.0", "0.147.0"]


@each(
    "text, version",
    [
        ('[tools]\ncodex = "0.147.0"\n', "0.147.0"),
        ('[tools]\n"npm:@openai/codex" = { version = "0.169.0" }\n', "0.169.0"),
        ('[tools]\n"ubi:openai/codex" = ["0.147.0", "0.169.0"]\n', "0.147.0"),
        ('[tools]\n"npm:@openai/codex" = "0.147"\n', "0.147.0"),
        ('[tools]\n"npm:@openai/codex" = "../0.147.0"\n', None),
        ('[tools]\npython = "3.12"\n"npm:@openai/codex" = "0.147.0"\n', "0.147.0"),
        ('[tools]\n"npm:@openai/codex" = "0.1', None),
        ("tools = 1\n", "0.169.0"),
    ],
)
def test_a_choice_of_mise_is_read_in_its_spellings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, version: str | None
) -> None:
    """A prefix is what mise has installed for it; nobody knows what a file that is no TOML decides."""
    manager = VersionManager("mise", tmp_path / "managed")
    (tmp_path / "managed/mise/installs/npm-openai-codex/0.147").symlink_to("0.147.0")
    monkeypatch.setenv("HOME", str(manager.home))
    manager.choose("0.169.0")
    (tmp_path / "mise.toml").write_text(text)
    assert read(manager, tmp_path) == version


@pytest.mark.parametrize("kind", ["mise", "asdf"])
def test_a_file_that_the_manager_may_read_is_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Where the runtime decides, a file of another manager may count; the engine's own pin decides alone."""
    manager = VersionManager(kind, tmp_path / "managed")
    monkeypatch.setenv("HOME", str(manager.home))
    manager.choose("0.169.0")
    (tmp_path / ".node-version").write_text("20.1.0\n")
    choice = chosen(kind, manager.shim, CODEX, tmp_path)
    assert choice
    if kind == "mise":
        assert choice.version == "0.169.0"
    else:
        assert (choice.version, "`nodejs 20.1.0, if it reads such files`" in choice.problem) == (None, True)


@each("kind, variable, value", [("asdf", "ASDF_NODEJS_VERSION", "20.1.0"), ("nodenv", "NODENV_VERSION", "20.1.0")])
def test_a_variable_of_the_user_counts_before_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, variable: str, value: str
) -> None:
    """So it does for the shim."""
    manager = VersionManager(kind, tmp_path / "managed")
    manager.choose("0.169.0", tmp_path)
    monkeypatch.setenv(variable, value)
    assert read(manager, tmp_path) == "0.147.0"


@each("name, text, kind", [("shims/codex", "#!/bin/sh\n", ""), ("volta-shim", "", "volta"), ("bin/codex", "", None)])
def test_a_shim_is_known_by_its_folder_or_its_program(tmp_path: Path, name: str, text: str, kind: str | None) -> None:
    """One in a folder of shims is one, even if nobody knows whose."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    assert manager_of(tmp_path / name) == kind
