"""The command `contracts new`."""

from pathlib import Path

import pytest

from tests.probes.draft.engine import VARIABLES, install
from turngate import cli


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


ENV = [f"--env={name}={value}" for name, value in VARIABLES.items()]


def test_a_draft_is_written_and_passes_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The draft is in the overlay, passes `contracts check`, and is never overwritten."""
    command = ["contracts", "new", "acme", "--path", str(install(tmp_path)), *ENV]
    assert cli.run(command) == 0
    said = capsys.readouterr()
    assert "session id: session (first), with which the second turn continued\n" in said.out
    assert f"next: turngate --contracts my probe acme={tmp_path}/acme" in said.out
    assert cli.run(["contracts", "check", "my/engines/acme.yaml"]) == 0
    before = (tmp_path / "my/engines/acme.yaml").read_text()
    assert cli.run(command) == 2
    assert "there is a contract already: my/engines/acme.yaml" in capsys.readouterr().err
    assert (tmp_path / "my/engines/acme.yaml").read_text() == before


def test_gaps_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A draft with gaps is written too; the gaps are listed, and the exit code is 2."""
    executable = install(tmp_path, **{"--yes": "--certainly"})
    assert cli.run(["contracts", "new", "acme", "--path", str(executable), "--into", "own", *ENV]) == 2
    assert "left to you: acme.yaml:" in (told := capsys.readouterr().err)
    assert "'auto_flags' is a required property" in told
    assert (tmp_path / "own/engines/acme.yaml").is_file()


@pytest.mark.parametrize(
    "words, problem",
    [
        (["acme"], "pass one of --npm PACKAGE, --pypi PACKAGE and --path FILE"),
        (["acme", "--npm", "a", "--pypi", "b"], "pass one of --npm"),
        (["Acme!", "--npm", "a"], "is not a name for an engine"),
        (["codex", "--npm", "a"], "there is a contract already"),
        (["acme", "--npm", "a", "--env", "X"], "'X' is not NAME=VALUE"),
        (["acme", "--npm", "a", "--file", "x=none"], "none can't be read"),
    ],
)
def test_wrong_arguments_are_refused(words: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong arguments are told before anything is installed or run, with exit code 2."""
    assert cli.run(["contracts", "new", *words]) == 2
    assert problem in capsys.readouterr().err
