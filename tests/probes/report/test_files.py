import io
import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from msgspec import structs
from rich.console import Console

from tests.probes.report import samples
from turngate import cli
from turngate.errors import EnvironmentFailed
from turngate_probes.cli import report as report_option
from turngate_probes.report.publish import FORMATS, publish
from turngate_probes.report.structs import ProbeReport


def write_reports(report: ProbeReport, paths: list[Path]) -> None:
    """Publish a report in these files."""
    publish(report, Console(file=io.StringIO()), None, paths)


@pytest.mark.parametrize("suffix, begin", [
    (".json", "{"), (".xml", "<?xml"), (".sarif", "{"), (".md", "## "), (".html", "<!DOCTYPE html>"),
])  # fmt: skip
def test_the_suffix_says_the_format(tmp_path: Path, suffix: str, begin: str) -> None:
    """In either case of letters; the folder is made, and hostile text can be written."""
    for report, name in ((samples.mixed(), f"new/report{suffix}"), (samples.hostile(), f"REPORT{suffix.upper()}")):
        write_reports(report, [tmp_path / name])
        assert (tmp_path / name).read_text("utf-8").startswith(begin)


def test_every_format_is_tested_and_told() -> None:
    """A format that is added is named in the help too."""
    assert list(FORMATS) == [".json", ".xml", ".sarif", ".md", ".html"]
    assert all(suffix in report_option.FORMATS for suffix in FORMATS)


def test_json_holds_the_report_itself(tmp_path: Path) -> None:
    """It is what `--json` writes."""
    write_reports(samples.mixed(), [tmp_path / "a.json"])
    assert json.loads((tmp_path / "a.json").read_text()) == samples.plain(samples.mixed())


def test_a_report_that_can_not_be_written_leaves_the_older_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No part of the new one stays."""
    (tmp_path / "a.html").write_text("old")

    def fail(*_args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(EnvironmentFailed, match=r"a\.html.*No space left"):
        write_reports(samples.mixed(), [tmp_path / "a.html"])
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.html", "old")]


def test_a_report_that_breaks_its_schema_is_written_nowhere(tmp_path: Path) -> None:
    """Such a report is our mistake and is told as one."""
    with pytest.raises(ValueError, match="exit_code"):
        write_reports(structs.replace(samples.mixed(), exit_code=-1), [tmp_path / "a.md"])
    assert list(tmp_path.iterdir()) == []


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
    @report_option.report_option
    def command(reports: tuple[Path, ...]) -> None:
        click.echo(" ".join(map(str, reports)))

    said = CliRunner().invoke(command, ["--report", "a.xml", "--report", "b.md"])
    assert said.output == "a.xml b.md\n"
