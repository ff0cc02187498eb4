"""Where a command prints, and how much."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import pytest

from tests.probes.report import samples
from turngate_probes.report.lines import Detail
from turngate_probes.report.publish import Printer, publish
from turngate_probes.report.release_view import view


def test_text_makes_room_for_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Text goes to stdout, or to stderr if JSON goes to stdout."""
    Printer().console.print("text")
    Printer(as_json=True).console.print("other text")
    assert capsys.readouterr() == ("text\n", "other text\n")


def test_only_progress_is_silenced(capsys: pytest.CaptureFixture[str]) -> None:
    """`--quiet` silences only progress; verdicts and problems are still printed."""
    output = Printer(detail=Detail.QUIET)
    output.progress.print("3 of 25 turns")
    output.console.print("compatible")
    assert capsys.readouterr().out == "compatible\n"
    assert Printer().progress is not Printer(detail=Detail.QUIET).progress


@contextmanager
def closed_pipe() -> Iterator[None]:
    """Make stdout a pipe without a reader while the block runs."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe, redirect_stdout(pipe):
        yield
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, writer)  # so that the rest of the buffer can be written
        os.close(null)


def test_a_reader_that_is_gone_is_an_error_of_its_own() -> None:
    """A closed pipe raises its own error, since rich would exit with 1, which means "broken"."""
    with closed_pipe(), pytest.raises(BrokenPipeError):
        Printer().console.print("text")


def test_reports_are_written_without_a_reader(tmp_path: Path) -> None:
    """A closed pipe keeps no report from being written, and is an error after that."""
    with closed_pipe():
        output = Printer(reports=(tmp_path / "a.json", tmp_path / "a.html"))
        output.progress.print("3 of 25 turns")
        assert publish(view(samples.mixed()), output) == 1
        with pytest.raises(BrokenPipeError):
            output.end()
    with closed_pipe(), pytest.raises(BrokenPipeError):
        publish(view(samples.mixed()), Printer(as_json=True, reports=(tmp_path / "b.json",)))
    assert {path.name for path in tmp_path.iterdir()} == {"a.json", "a.html", "b.json"}
