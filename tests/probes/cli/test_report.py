"""The command `report`; reading and rendering are tested with their modules."""

import json
from pathlib import Path
from unittest.mock import Mock

import click
import pytest

from tests.probes.gate import views
from tests.probes.report import samples
from turngate import UsageError, cli
from turngate_probes.report.load import load_report
from turngate_probes.report.publish import json_text


def test_several_reports_are_joined(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Several reports are merged; the exit code covers all their releases."""
    sources = [tmp_path / name for name in ("a.json", "b.json")]
    for source, engine, verdict in zip(sources, ("codex", "gemini"), ("compatible", "broken"), strict=True):
        source.write_text(json_text(samples.of(samples.whole(release=f"{engine}@0.1.0", verdict=verdict))))
    assert cli.run(["report", *map(str, sources), "--json"]) == 1
    releases = json.loads(capsys.readouterr().out)["releases"]
    assert [release["release"] for release in releases] == ["codex@0.1.0", "gemini@0.1.0"]


def test_the_report_of_a_gate_stands_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A gate report can't be merged with another report."""
    source = tmp_path / "gate.json"
    source.write_text(json_text(views.red_by_a_tool()))
    assert cli.run(["report", str(source), str(source)]) == 2
    assert "can't be merged" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".html", ".xml", ".md", ".sarif"])
def test_a_report_in_another_format_is_answered_by_what_can_be_read(tmp_path: Path, suffix: str) -> None:
    """Only JSON reports and journals can be rendered again, and the error says so."""
    (tmp_path / f"report{suffix}").write_text("<html>")
    with pytest.raises(UsageError, match="only JSON can") as refused:
        load_report(tmp_path / f"report{suffix}")
    assert "--report FILE.json" in refused.value.hint


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("named, opened", [(("--report", "own.html"), "own.html"), ((), "cache/report.html")])
def test_a_report_is_opened(
    named: tuple[str, ...],
    opened: str,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`--open` opens the HTML file that was asked for, else one in the cache; without a browser it names the file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path / "cache"))
    launched = Mock(return_value=code)
    monkeypatch.setattr(click, "launch", launched)
    Path("a.json").write_text(json_text(samples.of(samples.whole(release="codex@0.1.0", verdict="compatible"))))
    cli.run(["report", "a.json", "--open", *named])
    (path,) = launched.call_args.args
    assert (tmp_path / path) == tmp_path / opened
    assert (tmp_path / opened).read_text().startswith("<!DOCTYPE html>")
    assert ("no program here opens a page" in capsys.readouterr().err) == bool(code)


def test_a_report_that_can_not_be_written_is_refused_before_the_probe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file below a file is no place for a report; a folder that is missing is made."""
    (tmp_path / "file").touch()
    for place in ("file/a.html", "file/deep/a.html"):
        assert cli.run(["probe", "codex=/nowhere", "--report", str(tmp_path / place)]) == 2
        said = capsys.readouterr()
        assert ("can't be written; name a file in a folder of yours" in said.err, said.out) == (True, "")
    cli.run(["probe", "codex=/nowhere", "--level", "static", "--report", str(tmp_path / "new/a.html")])
    assert (tmp_path / "new/a.html").is_file()
