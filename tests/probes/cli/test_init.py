"""The command `init`; the files are tested with their module."""

from pathlib import Path

import pytest

from turngate import cli


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty project on GitHub."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".github").mkdir()


def test_it_shows_before_it_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal and --yes nothing is written; with it the files are, and the next command is named."""
    assert cli.run(["init", "codex"]) == 1
    shown = capsys.readouterr().out
    assert "another CI" not in shown
    assert "turngate.toml:\n  # What `turngate gate` tests" in shown
    assert shown.endswith("next: turngate init --yes codex\n")
    assert [path.name for path in tmp_path.iterdir()] == [".github"]
    assert cli.run(["init", "codex", "--yes"]) == 0
    assert capsys.readouterr().out.endswith("\nnext: turngate gate\n")
    assert 'engines = ["codex"]' in Path("turngate.toml").read_text()
    assert Path(".github/workflows/turngate.yml").is_file()


def test_another_ci_gets_a_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a CI that it knows, only the settings are written, and the command for the job is named."""
    (tmp_path / ".github").rmdir()
    assert cli.run(["init", "codex", "--yes"]) == 0
    assert "in another CI, run: turngate gate\n" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["turngate.toml"]


def test_a_release_is_no_engine(capsys: pytest.CaptureFixture[str]) -> None:
    """The gate tests the newest release, so a version would be lost."""
    assert cli.run(["init", "codex@0.169.0", "--yes"]) == 2
    assert "name the engine alone: turngate init codex\n" in capsys.readouterr().err


def test_nothing_that_exists_changes(capsys: pytest.CaptureFixture[str]) -> None:
    """Files of the project stay as they are, byte for byte."""
    Path("turngate.toml").write_text('engines = ["claude"]\n')
    Path(".github/workflows").mkdir()
    Path(".github/workflows/turngate.yml").write_text("mine")
    assert cli.run(["init", "codex", "--yes"]) == 0
    assert "nothing to write" in capsys.readouterr().out
    assert Path("turngate.toml").read_text() == 'engines = ["claude"]\n'
    assert Path(".github/workflows/turngate.yml").read_text() == "mine"


def test_a_pin_in_a_folder_below_needs_the_name_of_its_engine(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error says what was searched, and which command finds the pin."""
    monkeypatch.setenv("PATH", "")
    Path("web").mkdir()
    Path("web/package.json").write_text('{"dependencies": {"@openai/codex": "0.147.0"}}')
    assert cli.run(["init"]) == 2
    assert "the folders below it are not searched\n`turngate doctor` searches them" in capsys.readouterr().err


def test_a_range_is_told_from_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The error names the file that has a range in place of a release."""
    monkeypatch.setenv("PATH", "")
    Path("package.json").write_text('{"dependencies": {"@openai/codex": "^0.169.0"}}')
    assert cli.run(["init"]) == 2
    assert "package.json:1: `^0.169.0` names no single release of codex\n" in capsys.readouterr().err


@pytest.mark.parametrize("name, table", [("turngate.toml", ""), ("pyproject.toml", "[tool.turngate]\n")])
def test_settings_need_no_engine_to_be_named(monkeypatch: pytest.MonkeyPatch, name: str, table: str) -> None:
    """A project that has settings lacks only the job of its CI."""
    monkeypatch.setenv("PATH", "")
    Path(name).write_text(f'{table}engines = ["codex"]\n')
    assert cli.run(["init", "--yes"]) == 0
    assert Path(".github/workflows/turngate.yml").is_file()
