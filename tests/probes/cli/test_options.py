"""Options that several commands share."""

import click
import pytest
from click.testing import CliRunner

from turngate import cli
from turngate_probes.cli import options
from turngate_probes.report.output import Output


@pytest.mark.parametrize("name", ["report.pdf", "report", "-"])
@pytest.mark.parametrize("command", ["probe", "matrix codex --versions all", "report pyproject.toml"])
def test_an_unknown_suffix_is_a_mistake_of_usage_before_anything_runs(
    name: str, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody waits for a probe whose report can't be written."""
    monkeypatch.setenv("PATH", "")
    assert cli.run([*command.split(), "--report", "good.html", "--report", name]) == 2
    said = capsys.readouterr()
    assert f"{name!r} ends in no known format" in said.err
    assert said.out == ""


def test_the_option_may_be_repeated() -> None:
    """The command gets every path."""

    @click.command()
    @options.output_options(".xml", ".md")
    def command(output: Output) -> None:
        click.echo(" ".join(map(str, output.reports)))

    said = CliRunner().invoke(command, ["--report", "a.xml", "--report", "b.md"])
    assert said.output == "a.xml b.md\n"
