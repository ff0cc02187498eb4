"""Contracts of one's own, laid over the packaged ones."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from turngate import cli
from turngate.contract import load
from turngate.files import contract_files, name_of, overlay, use_overlay

CODEX = contract_files()["codex"]


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    """Take the overlay away again."""
    yield
    use_overlay(None)


def written(folder: Path, name: str = "codex", title: str = "My Codex") -> Path:
    """Write a contract of one's own, and give the folder."""
    text = CODEX.read_text().replace("engine: codex", f"engine: {name}").replace("title: Codex CLI", f"title: {title}")
    text = text.replace("status: active", "status: deprecated")
    (folder / "engines").mkdir(exist_ok=True)
    (folder / f"engines/{name}.yaml").write_text(text)
    return folder


def test_a_contract_of_ones_own_goes_first_and_others_stay(tmp_path: Path) -> None:
    """One of the same name replaces ours, one of another name joins them, and the file is told by its path."""
    written(tmp_path)
    use_overlay(written(tmp_path, "mine"))
    assert load.contract("codex").at().title == "My Codex"
    assert load.contract("codex").document.file == str(tmp_path / "engines/codex.yaml")
    assert {"mine", "codex", "gemini"} <= set(load.engines())
    assert list(load.engines()) == sorted(load.engines())
    use_overlay(None)
    assert load.contract("codex").at().title == "Codex CLI"
    assert "mine" not in load.engines()
    assert overlay() is None
    assert name_of(CODEX) == "engines/codex.yaml"


def test_the_command_takes_it_from_option_and_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """For every subcommand."""
    written(tmp_path)
    assert cli.run(["--contracts", str(tmp_path), "engines", "list"]) == 0
    assert re.search("codex +deprecated", capsys.readouterr().out)
    use_overlay(None)
    monkeypatch.setenv("TURNGATE_CONTRACTS", str(tmp_path))
    assert cli.run(["engines", "list"]) == 0
    assert re.search("codex +deprecated", capsys.readouterr().out)


def test_a_wrong_one_is_refused_before_anything_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With file, line and column; an empty folder is none the worse."""
    assert cli.run(["--contracts", str(tmp_path), "engines", "list"]) == 0
    file = written(tmp_path) / "engines/codex.yaml"
    file.write_text(file.read_text() + "nonsense: 1\n")
    assert cli.run(["--contracts", str(tmp_path), "engines", "list"]) == 2
    assert f"{file}:" in capsys.readouterr().err
    assert cli.run(["--contracts", str(tmp_path / "none"), "engines", "list"]) == 2
