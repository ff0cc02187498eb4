"""The command `contracts new`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packaging.test_writing_a_contract import CONTRACT
from tests.probes.draft.engine import VARIABLES, install
from tests.tables import each
from turngate import cli
from turngate.files import use_overlay

FILE = Path("my/engines/acme.yaml")
ENV = [f"--env={name}={value}" for name, value in VARIABLES.items()]
TEMPLATES = [
    "--start-args=--json {options} {prompt}",
    "--resume-args=--json {options} --resume {handle} {prompt}",
]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Work in an empty folder, and remove the overlay after the test."""
    monkeypatch.chdir(tmp_path)
    yield
    use_overlay(None)


def new(folder: Path, *more: str) -> list[str]:
    """Return the command that drafts the contract of the made-up engine, and install that."""
    return ["contracts", "new", "acme", "--path", str(install(folder)), *ENV, *more]


@pytest.mark.long
def test_a_draft_has_gaps_that_each_next_step_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The draft is written with exit code 0; `contracts check` and `probe` name its gaps; other engines go on."""
    assert cli.run(new(tmp_path, *TEMPLATES)) == 0
    said = capsys.readouterr().out
    assert f"wrote {FILE}, with 8 gaps\n  1. line " in said
    assert said.endswith(f"\nnext: turngate contracts check {FILE}\n")
    assert "session id: " in said
    assert cli.run(["contracts", "check", str(FILE)]) == 2
    checked = capsys.readouterr().err
    assert checked.count(": is a gap (the comment above its section says how to find out)\n") == 8
    assert f"gap 1 of 8: {FILE}:" in checked
    assert checked.endswith(f"next: fill in gap 1, and then turngate contracts check {FILE}\n")
    assert cli.run(["--contracts", "my", "probe", f"acme={tmp_path}/acme"]) == 2
    probed = capsys.readouterr().err
    assert "8 gaps: $.vendor, $.launch.auto" in probed
    assert "the contract of acme can't be used yet" in probed
    assert cli.run(["--contracts", "my", "engines", "list"]) == 0


@pytest.mark.long
def test_a_draft_is_replaced_until_it_has_no_gaps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A repeated call replaces the draft and keeps each old text; a contract without gaps is replaced by force only."""
    assert cli.run(new(tmp_path)) == 0
    first = FILE.read_text()
    assert cli.run(["--contracts", "my", *new(tmp_path, *TEMPLATES)]) == 0
    assert FILE.read_text() != first
    assert FILE.with_name("acme.yaml~").read_text() == first
    FILE.write_text(CONTRACT)
    use_overlay(None)
    capsys.readouterr()
    assert cli.run(new(tmp_path)) == 2
    assert f"there is a contract already, and it has no gaps: {FILE}" in capsys.readouterr().err
    assert FILE.read_text() == CONTRACT
    assert cli.run(new(tmp_path, "--force")) == 0
    assert FILE.with_name("acme.yaml~2").read_text() == CONTRACT
    assert FILE.with_name("acme.yaml~").read_text() == first


@pytest.mark.long
def test_the_folder_of_contracts_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--contracts my` may name a new folder where a draft is written, and nowhere else, as its help says."""
    assert cli.run(["--help"]) == 0
    assert "Only `contracts new` creates DIR." in " ".join(capsys.readouterr().out.split())
    others = (["contracts", "check"], ["--contracts", "my", "engines", "list"], ["gate", "codex", "--contracts", "my"])
    for command in others:
        assert cli.run(command if "my" in command else ["--contracts", "my", *command]) == 2
        assert "my' does not exist; turngate --contracts DIR contracts new ENGINE makes it" in capsys.readouterr().err
        assert not Path("my").exists()
    command = ["--contracts", "my", "contracts", "new", "acme", "--path", str(install(tmp_path))]
    assert cli.run(command) == 0
    assert capsys.readouterr().out.endswith(f"\nnext: turngate contracts check {FILE}\n")
    assert FILE.is_file()


@pytest.mark.long
def test_a_draft_is_written_although_nothing_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If no request reaches the model, the draft is written all the same, and both say what was printed."""
    command = ["contracts", "new", "acme", "--path", str(install(tmp_path)), "--into", "my own"]
    assert cli.run(command) == 0
    said = capsys.readouterr().out
    assert "it asked the model for no answer; exit code 1\n    stderr: KeyError: 'ACME_BASE_URL'\n" in said
    assert said.endswith("\nnext: turngate contracts check 'my own/engines/acme.yaml'\n")
    assert "KeyError: 'ACME_BASE_URL'" in Path("my own/engines/acme.yaml").read_text()


@each(
    "words, problem",
    [
        (["acme"], "pass one of --npm PACKAGE, --pypi PACKAGE and --path FILE"),
        (["acme", "--npm", "a", "--pypi", "b"], "pass one of --npm"),
        (["Acme!", "--npm", "a"], "is not a name for an engine"),
        (["codex", "--npm", "a"], "there is a contract already"),
        (["acme", "--npm", "a", "--env", "X"], "'X' is not NAME=VALUE"),
        (["acme", "--npm", "a", "--file", "x=none"], "none can't be read"),
        (["acme", "--npm", "a", "--start-args", "run {prompt}"], "--start-args needs each of {options}, {prompt} once"),
        (
            ["acme", "--npm", "a", "--resume-args", "{options} {prompt}"],
            "--resume-args needs each of {options}, {handle}",
        ),
    ],
)
def test_wrong_arguments_are_refused(words: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong arguments are told before anything is installed or run, with exit code 2."""
    assert cli.run(["contracts", "new", *words]) == 2
    assert problem in " ".join(capsys.readouterr().err.split())
