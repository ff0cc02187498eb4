"""Tests of finding an engine on PATH and caching its version."""

import os
from pathlib import Path

import pytest

from tests.fakes.version_manager import MANAGERS, VersionManager
from tests.reference import cli_env as d
from tests.reference.cli_env import CliEnv
from turngate.process.execution import Stop
from turngate_reference.data_dir import DataDir
from turngate_reference.engine.attempt import find_engine


def _versions_asked(cli_env: CliEnv, engine: str = "codex") -> int:
    return (cli_env.path / f"{engine}.asked").read_text().count("'argv': ['--version']")


def test_the_version_is_asked_for_once(cli_env: CliEnv) -> None:
    """The version is cached for later attempts."""
    cli_env.engine("codex", d.codex("hi"))
    handle = cli_env.begin()
    cli_env.type("resume", handle, "go on")
    assert _versions_asked(cli_env) == 1


def test_it_is_asked_for_again_once_the_executable_changed(cli_env: CliEnv) -> None:
    """A replaced executable is asked for its version again, and gets the claims of its own release."""
    executable = cli_env.engine("codex", d.codex("hi"))
    assert find_engine("codex", DataDir(cli_env.data), Stop()).version == "0.169.0"
    cli_env.engine("codex", d.codex("hi"), version="codex-cli 0.140.0")
    executable.rename(executable.with_name("old"))
    executable.write_bytes(executable.with_name("old").read_bytes())
    executable.chmod(0o755)
    engine = find_engine("codex", DataDir(cli_env.data), Stop())
    assert (engine.version, engine.contract.version) == ("0.140.0", "0.140.0")


@pytest.mark.parametrize("said", ["who knows", "codex-cli one"])
def test_without_a_version_the_newest_claims_hold(cli_env: CliEnv, said: str) -> None:
    """An engine without a readable version gets the newest claims."""
    cli_env.engine("codex", d.codex("hi"), version=said)
    cli_env.begin()
    assert find_engine("codex", DataDir(cli_env.data), Stop()).contract.version is None


def test_no_answer_is_not_kept(cli_env: CliEnv) -> None:
    """An engine that printed no version is asked again."""
    cli_env.engine("codex", d.codex("hi"), version="who knows")
    cli_env.begin()
    cli_env.begin()
    assert _versions_asked(cli_env) == 2


def test_engines_that_one_program_stands_for_are_told_apart(cli_env: CliEnv) -> None:
    """Version managers link many engine names to one program; each name has its own version."""
    shim = cli_env.engine("codex", d.codex("hi"))
    cli_env.engine("gemini", d.gemini("hi"))
    (cli_env.path / "gemini").unlink()
    (cli_env.path / "gemini").symlink_to(shim)
    data = DataDir(cli_env.data)
    assert [find_engine(name, data, Stop()).version for name in ("codex", "gemini")] == ["0.169.0", "0.61.0"]


def test_a_relative_path_is_found_from_here(cli_env: CliEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine on a relative PATH is found even though it runs in another directory."""
    cli_env.engine("codex", d.codex("hi"))
    monkeypatch.setenv("PATH", "path:/usr/bin:/bin")
    cli_env.begin()
    assert cli_env.calls()[0]["cwd"] != str(Path.cwd())


def test_a_memory_of_versions_that_is_damaged_is_forgotten(cli_env: CliEnv) -> None:
    """A damaged cache only means that the version is asked for again."""
    cli_env.engine("codex", d.codex("hi"))
    for text in ("{", "[]", '{"a": 1}'):
        cli_env.data.mkdir(exist_ok=True)
        (cli_env.data / "versions.json").write_text(text)
        cli_env.begin()
    assert _versions_asked(cli_env) == 3


@pytest.mark.parametrize("kind", MANAGERS)
def test_a_shim_is_the_release_of_the_directory_of_the_turn(
    cli_env: CliEnv, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Each directory has its own release, and another choice there counts at once."""
    manager, data = VersionManager(kind, cli_env.root / "managed"), DataDir(cli_env.data)
    manager.choose("0.169.0")
    monkeypatch.setenv("PATH", f"{manager.shim.parent}:{os.defpath}")
    monkeypatch.setenv("HOME", str(manager.home))
    project = cli_env.root / "project"
    project.mkdir()

    def found(cwd: Path | None) -> str | None:
        engine = find_engine("codex", data, Stop(), cwd)
        assert engine.contract.version == engine.version
        return engine.version

    assert (found(None), found(project)) == ("0.169.0", "0.169.0")
    pinned = manager.choose("0.147.0", project)
    assert (found(None), found(project)) == ("0.169.0", "0.147.0")
    if kind != "volta":
        pinned.unlink()
        assert found(project) == "0.169.0"


def test_a_conversation_has_the_release_of_its_directory(cli_env: CliEnv) -> None:
    """`start --cwd` and `resume` name the release that runs there, and refuse what nothing makes safe in that one."""
    cli_env.engine_by_directory(d.codex("hi"), d.codex("more"))
    project = cli_env.root / "project"
    project.mkdir()
    (project / "pin").touch()
    refused = cli_env.type("start", "codex", "--mode", "auto", "--cwd", str(project), "hello")
    assert "files in the workspace can reconfigure codex 0.147.0" in refused.err
    handle = cli_env.begin("codex", "--trust-workspace", str(project), "--cwd", str(project), "hello")
    assert cli_env.record(handle)["engineVersion"] == "0.147.0"
    (project / "pin").unlink()
    cli_env.type("resume", handle, "go on")
    assert cli_env.record(handle)["engineVersion"] == "0.169.0"
