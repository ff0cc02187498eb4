"""What a shell completes: engines, releases in the cache, clauses. Help pages import it too, so it imports little."""

import re
from collections.abc import Iterator
from pathlib import Path

import click

import turngate
from turngate.files import contract_files, default_cache


def engines(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the engines that begin with a text."""
    return [engine for engine in contract_files() if engine.startswith(incomplete)]


def targets(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the engines that begin with a text and, once an engine is written out, its releases in the cache."""
    return [name for name in _targets(incomplete) if name.startswith(incomplete)]


def clauses(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the clauses whose id begins with a text. Their file is searched, because parsing it takes too long."""
    catalogue = Path(turngate.__file__).with_name("clauses.yaml").read_text("utf-8")
    return [name for name in re.findall(r"^  - id: (\S+)$", catalogue, re.MULTILINE) if name.startswith(incomplete)]


def _targets(incomplete: str) -> Iterator[str]:
    for engine in contract_files():
        yield engine
        if incomplete.startswith(engine):
            folder = default_cache() / "engines" / engine
            releases = [path for path in folder.glob("[0-9]*") if path.is_dir()] or [*folder.glob("pypi-*")]
            yield from sorted(f"{engine}@{path.name.removeprefix('pypi-')}" for path in releases)
