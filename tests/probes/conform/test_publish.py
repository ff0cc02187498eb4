"""Results as they come, and reports as files."""

import json
from pathlib import Path

import pytest

from tests.probes.conform.reports import REPORT, ROWS
from turngate import EnvironmentFailed
from turngate_probes.conform.publish import Told, publish
from turngate_probes.report.problems import Detail, Output


def test_each_result_is_told_with_its_number(capsys: pytest.CaptureFixture[str]) -> None:
    """--quiet leaves out what passes."""
    told = Told(Output(), 2)
    told(ROWS[0])
    told(ROWS[1])
    out = capsys.readouterr().out
    assert "two-turns  1.5 s  [1/2]" in out
    assert "hang-before-answer  1.5 s  [2/2]\n  orchestrator.ends-hangs" in out
    quiet = Told(Output(detail=Detail.QUIET), 2)
    quiet(ROWS[0])
    quiet(ROWS[1])
    assert capsys.readouterr().out.startswith("fail")


def test_what_runs_is_told_first(capsys: pytest.CaptureFixture[str]) -> None:
    """With several jobs the longest scenarios come first, so results take a while."""
    told = Told(Output(), 40)
    told.begin(40, ["codex 0.169.0"], jobs=1)
    told.begin(40, ["codex 0.169.0", "gemini 0.61.0"], jobs=4)
    Told(Output(detail=Detail.QUIET), 1).begin(1, ["codex 0.169.0"], jobs=1)
    assert capsys.readouterr().out.splitlines() == [
        "40 scenarios with codex 0.169.0",
        "40 scenarios with codex 0.169.0, gemini 0.61.0, 4 at a time, the longest first",
    ]


def test_a_report_is_written_in_each_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON goes to stdout, and text to stderr."""
    files = tuple(tmp_path / f"r{suffix}" for suffix in (".json", ".xml", ".md"))
    assert publish(REPORT, Output(as_json=True, reports=files)) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out) == json.loads(files[0].read_text())
    assert "exit code 1" in printed.err
    assert files[1].read_text().startswith("<?xml")
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentFailed, match="can't write the report"):
        publish(REPORT, Output(reports=(tmp_path / "file" / "r.json",)))
