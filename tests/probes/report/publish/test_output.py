"""Where a command prints, and how much."""

import os
import sys

import pytest

from turngate_probes.report.publish import Printer
from turngate_probes.report.text import Detail


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


def test_a_reader_that_is_gone_is_an_error_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed pipe raises its own error, since rich would exit with 1, which means "broken"."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        with pytest.raises(BrokenPipeError):
            Printer().console.print("text")
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, writer)  # so that the rest of the buffer can be written
        os.close(null)
