"""Where reports go: JSON to a file or to standard output, text to the other."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import click
from msgspec import to_builtins
from rich.console import Console

from turngate.contract.load import first_error
from turngate.errors import EnvironmentFailed
from turngate.files import write_atomically

STDOUT = "-"


def console_for(json_to: str | None) -> Console:
    """Make the console for text: standard output, or standard error when the JSON takes standard output."""
    stream = sys.stderr if json_to == STDOUT else sys.stdout
    if isinstance(stream, io.TextIOWrapper):
        # what an engine wrote may not exist in the encoding of this terminal
        stream.reconfigure(errors="backslashreplace")
    return Console(file=stream, highlight=False, markup=False, emoji=False)


def write_json(report: Any, json_to: str, schema: str = "probe-report") -> None:
    """Validate a report and write it, whole or not at all.

    Raises ValueError if it breaks its schema (our mistake) and EnvironmentFailed if it can't be written.
    """
    checked(report, schema)
    text = json_text(report)
    if json_to == STDOUT:
        click.echo(text, nl=False)
        return
    try:
        write_atomically(Path(json_to).resolve(), text)
    except OSError as error:
        raise EnvironmentFailed(f"the report {json_to} can't be written: {error.strerror}") from error


def checked(report: Any, schema: str = "probe-report") -> None:
    """Raise ValueError if a report breaks its schema, which is our mistake."""
    wrong = first_error(schema, json.loads(json_text(report)))
    if wrong:
        raise ValueError(f"the report breaks its schema at {wrong}")


def json_text(report: Any) -> str:
    """Write a report as JSON."""
    return json.dumps(to_builtins(report), indent=2, allow_nan=False) + "\n"
