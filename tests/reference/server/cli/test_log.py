"""Tests that log text can't pass for another message or control a terminal."""

import logging

import pytest

from turngate_reference.server.cli import VisibleFormatter

FORGED = "gpt\n2026-01-01 ERROR root: all is lost\r\x1b[2J"


def test_a_message_is_one_line() -> None:
    """Line breaks and control characters in arguments are escaped."""
    record = logging.LogRecord("turns", logging.INFO, "", 0, "the model is %s", (FORGED,), None)
    line = VisibleFormatter("%(levelname)s %(name)s: %(message)s").format(record)
    assert line == r"INFO turns: the model is gpt\n2026-01-01 ERROR root: all is lost\r\x1b[2J"


def test_a_traceback_is_indented() -> None:
    """The lines of an error's text are indented, and its control characters are escaped."""
    with pytest.raises(ValueError, match="gpt") as raised:
        raise ValueError(FORGED)
    record = logging.LogRecord("turns", logging.ERROR, "", 0, "a turn failed", (), raised._excinfo)
    first, *lines = VisibleFormatter("%(message)s").format(record).split("\n")
    assert first == "a turn failed"
    assert "Traceback" in lines[0]
    assert all(line.startswith("    ") and line.isprintable() for line in lines)
