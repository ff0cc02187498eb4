"""Options that several commands share."""

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.probes.report import samples
from turngate import MachineError, cli
from turngate_probes.cli import shared_options
from turngate_probes.report.publish import Printer, json_text
from turngate_probes.report.source_locations import use_anchor


@pytest.mark.parametrize("name", ["report.pdf", "report", "-"])
@pytest.mark.parametrize("command", ["probe", "matrix codex --versions all", "report pyproject.toml"])
def test_an_unknown_suffix_is_a_mistake_of_usage_before_anything_runs(
    name: str, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unknown report suffix is rejected before anything runs."""
    monkeypatch.setenv("PATH", "")
    assert cli.run([*command.split(), "--report", "good.html", "--report", name]) == 2
    said = capsys.readouterr()
    assert f"{name!r} has an unknown suffix" in said.err
    assert said.out == ""


def test_the_option_may_be_repeated() -> None:
    """--report can be repeated; the command receives every path."""

    @click.command()
    @shared_options.output_options(".xml", ".md")
    def command(output: Printer) -> None:
        click.echo(" ".join(map(str, output.reports)))

    said = CliRunner().invoke(command, ["--report", "a.xml", "--report", "b.md"])
    assert said.output == "a.xml b.md\n"


def test_an_anchor_is_a_file_of_the_repository(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """SARIF results point to the --anchor file; one outside the repository is rejected before anything runs."""
    report = tmp_path / "report.json"
    report.write_text(json_text(samples.mixed()))
    words = ["report", str(report), "--report", str(tmp_path / "report.sarif"), "--anchor"]
    assert cli.run([*words, str(report)]) == 2
    assert "is not a file in the repository" in capsys.readouterr().err
    try:
        assert cli.run([*words, "pyproject.toml"]) == 1
    finally:
        use_anchor(None)
    (run,) = json.loads((tmp_path / "report.sarif").read_text())["runs"]
    places = [result["locations"][0]["physicalLocation"] for result in run["results"]]
    assert [place["artifactLocation"]["uri"] for place in places] == ["pyproject.toml"] * 2


def test_no_message_has_control_characters(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither messages of commands nor errors, which may quote an engine, reach the terminal unescaped."""

    @click.command()
    def fails() -> None:
        shared_options.say("\x1b[2Ja\nb\u202e")
        raise MachineError("\x1b]0;owned\x07", "\x9bhint")

    monkeypatch.setattr(cli.EntryPointGroup, "get_command", lambda *_: fails)
    assert cli.run(["fails"]) == 2
    assert capsys.readouterr().err == "\\x1b[2Ja\nb\\u202e\nError: \\x1b]0;owned\\x07\n\\x9bhint\n"
