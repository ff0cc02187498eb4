import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from tests.probes.report import journals as j
from tests.probes.report import samples
from turngate.errors import MachineError
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.report.github import annotations
from turngate_probes.report.progress import live
from turngate_probes.report.publish import Printer, publish
from turngate_probes.report.release_view import view
from turngate_probes.report.reports import ProbeReport

COMMAND = re.compile(r"::(error|warning|notice) ([^:]*)::([^\r\n]*)")


@pytest.fixture(name="summary")
def _summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Simulate a GitHub workflow and return its summary file."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    return tmp_path / "summary"


def published(report: ProbeReport) -> list[str]:
    """Publish a report and return the printed lines."""
    output, printed = Printer(), io.StringIO()
    output.console = Console(file=printed, width=80)
    publish(view(report), output, Path("journal"))
    return printed.getvalue().splitlines()


def test_what_failed_is_annotated_at_the_pin_of_its_engine() -> None:
    """Broken or unanswered is an error, degraded a warning, a known caveat a notice, each at the engine's pin."""
    unasked, broken, degraded, stale, caveat = annotations(view(samples.mixed()))
    assert unasked == (
        "::error file=probes/turngate_probes/releases/pins/opencode/package.json,line=5,"
        "title=opencode@1.0.0::could not be tested: npm is absent"
    )
    assert broken == (
        "::error file=probes/turngate_probes/releases/pins/codex/package.json,line=5,"
        "title=codex@0.169.0 resume.accepted::the resume was refused"
    )
    assert degraded.startswith("::warning file=")
    assert "title=gemini@0.61.0 prompt.large::stale" in stale
    assert caveat == (
        "::notice file=probes/turngate_probes/releases/pins/gemini/package.json,line=5,"
        "title=known caveat%3A resume.other-cwd::stay in the directory of the first turn (gemini@0.61.0)"
    )


def test_at_most_ten_of_a_kind_and_the_rest_is_counted() -> None:
    """GitHub silently drops more than ten annotations of a kind, so the last line counts the rest."""
    assert len(annotations(view(samples.many(10)))) == 10
    lines = annotations(view(samples.many(25)))
    assert len(lines) == 10
    assert lines[-1] == "::error title=turngate::16 more: see the summary"


def test_no_text_of_an_engine_is_a_command() -> None:
    """Each annotation is one line, and engine output can't add properties to it."""
    for line in annotations(view(samples.hostile())):
        assert COMMAND.fullmatch(line), line
        assert "\x1b" not in line


def test_a_workflow_gets_annotations_and_a_summary(summary: Path) -> None:
    """The text report is printed first, with workflow commands disabled, since it contains engine output."""
    lines = published(samples.mixed())
    stop = re.fullmatch(r"::stop-commands::([0-9a-f]{32})", lines[0])
    assert stop
    end = lines.index(f"::{stop[1]}::")
    assert end > 10
    assert lines[end + 1 :] == annotations(view(samples.mixed()))
    assert "1 of 4 releases is broken" in summary.read_text()


def test_no_line_while_it_runs_is_a_command(summary: Path) -> None:
    """Progress lines can't be workflow commands, although they contain engine output."""
    console = Console(file=io.StringIO())
    with live(console, Interrupt()) as listener:
        listener(j.planned())
        listener(j.clause("resume.accepted", "fail", detail="##[error]x"))
    assert isinstance(console.file, io.StringIO)
    first, *shown, last = console.file.getvalue().splitlines()
    assert "##[error]x" in shown[-1]
    assert (first, last) == (f"::stop-commands::{last.strip(':')}", f"::{last.strip(':')}::")


def test_a_summary_is_added_to_what_is_there_while_there_is_room(summary: Path) -> None:
    """The summary is appended to the step's file, which all its commands share, as long as it fits."""
    summary.write_text("before\n")
    published(samples.mixed())
    assert summary.read_text().startswith("before\n## ❌ 1 of 4")
    summary.write_text("x" * 1024 * 1024)
    published(samples.mixed())
    assert summary.read_text()[1024 * 1024 :].strip() == (
        "turngate's summary is left out, because there is no room for it."
    )


def test_a_summary_that_can_not_be_written_is_told(summary: Path) -> None:
    """An unwritable summary file is an environment error."""
    summary.mkdir()
    with pytest.raises(MachineError, match="summary"):
        published(samples.mixed())


def test_elsewhere_nothing_of_it_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside GitHub no workflow commands are printed."""
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    broken = samples.of(samples.whole(j.clause("resume.accepted", "fail"), verdict="broken"))
    assert not any(line.startswith("::") for line in published(broken))
    assert not (tmp_path / "summary").exists()
