"""Tests that log text can't pass for another message or control a terminal."""

import errno
import logging
import sqlite3

import pytest

from turngate.errors import MachineError
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


@pytest.mark.parametrize(
    "error, told",
    [
        (OSError(errno.ENOSPC, "No space left"), "can't do this right now: No space left (free some space"),
        (sqlite3.OperationalError("database is locked"), "not available right now: database is locked (retry later)"),
        (MachineError("the disk is full", "free it"), "the disk is full (free it)"),
    ],
)
def test_what_the_machine_lacks_is_no_traceback(error: Exception, told: str) -> None:
    """A full disk, or a database that can't be used, is told in one line, with what to do."""
    record = logging.LogRecord("turns", logging.ERROR, "", 0, "a turn failed", (), (type(error), error, None))
    first, *lines = VisibleFormatter("%(message)s").format(record).split("\n")
    assert first == "a turn failed"
    assert len(lines) == 1
    assert told in lines[0]
