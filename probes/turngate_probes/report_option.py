"""The option `--report`, checked before anything runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

FORMATS = ".json, .xml (JUnit), .sarif, .md or .html"


def report_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option to a command, which gets the paths as `reports`."""
    return click.option(
        "--report", "reports", multiple=True, metavar="FILE", callback=_checked,
        type=click.Path(dir_okay=False, path_type=Path),
        help=f"Write a report to FILE, by its suffix {FORMATS}; may be repeated.",
    )(command)  # fmt: skip


def _checked(_ctx: click.Context, _option: click.Parameter, paths: tuple[Path, ...]) -> tuple[Path, ...]:
    if paths:
        from turngate_probes.report.files import wrong_suffix  # noqa: PLC0415 - so that --help is quick

        for wrong in filter(None, map(wrong_suffix, paths)):
            raise click.BadParameter(wrong)
    return paths
