"""The command `simulate`; the simulation itself is tested with its modules."""

import os
import subprocess
from pathlib import Path

import pytest

from turngate import cli


@pytest.mark.parametrize("before", [True, False])
def test_options_stand_before_or_after_the_engine(
    *, before: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Options work before and after the engine: the executable is written, and its path printed."""
    options = ("--install", str(tmp_path / "bin"), "--fault", "dies-after-turn")
    assert cli.run(["simulate", *(options if before else ()), "codex@0.169.0", *(() if before else options)]) == 0
    executable = tmp_path / "bin/codex"
    assert capsys.readouterr().out == f"{executable}\n"
    assert os.access(executable, os.X_OK)
    said = subprocess.run([executable, "--version"], check=True, capture_output=True, text=True).stdout
    assert "0.169.0" in said


@pytest.mark.parametrize("words", [("--version",), ("--", "--version")])
def test_arguments_are_those_of_the_engine(words: tuple[str, ...], capfd: pytest.CaptureFixture[str]) -> None:
    """Arguments are passed to the engine, with or without `--`; the default version is the pinned one."""
    assert cli.run(["simulate", "codex", *words]) == 0
    assert "codex" in capfd.readouterr().out


@pytest.mark.parametrize("version, is_known", [("0.169.0", True), ("0.168.99", False), ("99.0.0", False)])
def test_a_release_that_nobody_knows_is_simulated_with_a_warning(
    *, version: str, is_known: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mistyped version is noticed, although a future one can be simulated."""
    assert cli.run(["simulate", f"codex@{version}", "--install", str(tmp_path)]) == 0
    said = capsys.readouterr().err
    assert ("" if is_known else f"Warning: turngate doesn't know codex@{version}") == said.partition(";")[0]


def test_what_is_no_engine_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown engine is rejected with exit code 2."""
    assert cli.run(["simulate", "kodex", "--version"]) == 2
    assert "'kodex' is not an engine" in capsys.readouterr().err


def test_a_simulation_without_anything_to_do_names_what_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    """Without arguments of the engine there is nothing to simulate, so the message names the option that installs."""
    assert cli.run(["simulate", "codex"]) == 2
    assert "pass arguments of the engine, or --install DIR" in capsys.readouterr().err


def test_faults_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """`--fault list` prints what each fault does, whatever else is given."""
    for words in (("--fault", "list"), ("codex", "--fault", "list")):
        assert cli.run(["simulate", *words]) == 0
        assert "  dies-after-turn  " in f"  {capsys.readouterr().out}".replace("\n", "\n  ")


def test_an_unknown_fault_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown fault is rejected before any output, wherever the option stands, with the nearest one."""
    for words in (("--fault", "crash-", "codex", "--install", "x"), ("codex", "--install", "x", "--fault", "crash-")):
        assert cli.run(["simulate", *(str(tmp_path / "x") if word == "x" else word for word in words)]) == 2
        assert "did you mean crash?" in capsys.readouterr().err
    assert cli.run(["simulate", "codex", "--install", str(tmp_path), "--fault"]) == 2
    assert "requires an argument" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
