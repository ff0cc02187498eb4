"""The command `report`; reading and rendering are tested with their modules."""

import json
from pathlib import Path

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
