"""The options by which an operator allows what turngate can't make safe, for the server and the terminal."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from turngate import engine_names
from turngate.contract.load import unusable


def trust_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command, which gets `allow_unsafe` and `trust_workspace`."""
    unsafe = click.option(
        "--allow-unsafe",
        metavar="ENGINE",
        multiple=True,
        callback=_known,
        help="Run this engine even where its contract says that nothing keeps it from acting unasked (repeatable).",
    )
    workspace = click.option(
        "--trust-workspace",
        metavar="DIR",
        multiple=True,
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Let files in this directory configure the engine, as if you had started it there yourself (repeatable).",
    )
    return unsafe(workspace(command))


def _known(_ctx: click.Context, _option: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name not in engine_names() and not unusable(name):
            raise click.BadParameter(f"no contract for engine {name!r}; known engines: {', '.join(engine_names())}")
    return names
