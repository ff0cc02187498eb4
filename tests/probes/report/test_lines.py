"""Lines are printed to a terminal and to a pipe."""

import io

import pytest
from rich.console import Console
from rich.text import Text

from turngate_probes.report.lines import labelled, print_line

SENTENCE = "A first turn prints the session id under the field that the contract names."


def printed(*, terminal: bool) -> str:
    """Return what is printed of a failure, with an empty line after it, in 30 columns."""
    console = Console(file=io.StringIO(), width=30, force_terminal=terminal, highlight=False, markup=False)
    print_line(console, 2, labelled("fail", SENTENCE))
    print_line(console, 0, Text())
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_terminal_shows_colours_and_wraps_lines() -> None:
    """In a terminal, text is coloured and wrapped to its width, and nothing is lost."""
    out = printed(terminal=True)
    assert "\x1b[1;31mfail" in out
    bare = Console(file=io.StringIO()).render_str("").from_ansi(out).plain
    assert max(map(len, bare.split("\n"))) <= 30
    assert " ".join(bare.split()) == f"fail {SENTENCE}"
    assert all(line == line.rstrip() and line.startswith("    ") for line in bare.rstrip("\n").split("\n"))


def test_a_pipe_gets_whole_lines() -> None:
    """Text that is not for a terminal has neither colours nor line breaks of its own."""
    assert printed(terminal=False) == f"    fail {SENTENCE}\n\n"


def test_no_color_is_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """With NO_COLOR a terminal gets no colours."""
    monkeypatch.setenv("NO_COLOR", "1")
    assert "31m" not in printed(terminal=True)
