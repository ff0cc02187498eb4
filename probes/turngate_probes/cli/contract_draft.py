"""`contracts new`: gets an unknown CLI, tries it, and writes the draft."""

import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from turngate import EnvironmentFailed
from turngate.contract.hermetic import Hermetic
from turngate.contract.surroundings import SetupFile
from turngate.files import contract_files, overlay, write_atomically
from turngate.process.sessions import adopting_orphans
from turngate.sanitize import visible
from turngate_probes.cli.options import say
from turngate_probes.draft.arguments import variables
from turngate_probes.draft.contract import Engine, draft
from turngate_probes.draft.trial import Command, attempt
from turngate_probes.harness.interrupt import Interrupt, interruptible
from turngate_probes.harness.sandbox import sandbox
from turngate_probes.probe_settings import sandboxes_path
from turngate_probes.releases.cache import in_use
from turngate_probes.releases.npm import NpmRegistry
from turngate_probes.releases.pypi import PypiRegistry
from turngate_probes.releases.registry import Registry

DEFAULT = Path("my")


def write(  # noqa: PLR0913 - as it has options
    engine: str,
    *,
    npm_package: str | None,
    pypi_package: str | None,
    path: Path | None,
    executable: str | None,
    version: str,
    env: Mapping[str, str],
    files: Mapping[str, str],
    start_args: str | None,
    resume_args: str | None,
    model: str,
    into: Path | None,
) -> int:
    """Write a draft, and print what was seen and what is left to the user; return the exit code.

    EnvironmentFailed: there is a contract already, or the CLI can't be installed or reaches no model.
    """
    file = (into or overlay() or DEFAULT) / "engines" / f"{engine}.yaml"
    if not re.fullmatch("[a-z][a-z0-9-]*", engine):
        raise click.UsageError(f"{engine!r} is not a name for an engine; use small letters, digits and -")
    if file.exists() or (engine in contract_files() and not into):
        existing = file if file.exists() else contract_files()[engine]
        raise EnvironmentFailed(f"there is a contract already: {existing}", "choose another name, or remove it first")
    if sum(source is not None for source in (npm_package, pypi_package, path)) != 1:
        raise click.UsageError("pass one of --npm PACKAGE, --pypi PACKAGE and --path FILE")
    name = executable or (path.name if path else engine)
    registry: Registry | None = None
    if npm_package:
        registry = NpmRegistry(engine, npm_package, (f"node_modules/.bin/{name}",))
    elif pypi_package:
        registry = PypiRegistry(engine, pypi_package, (name,))
    templates = tuple(SetupFile(where, _text(source)) for where, source in files.items())
    hermetic = Hermetic(env=env or variables(set()), files=templates, model=model)
    with adopting_orphans(), interruptible() as interrupt, _obtained(registry, path, version, interrupt) as program:
        command = Command(program, hermetic, *(tuple(shlex.split(args or "")) for args in (start_args, resume_args)))
        with sandbox(hermetic, sandboxes_path(None), f"new-{engine}", keep=False) as box:
            trial = attempt(command, box, interrupt)
    made = draft(Engine(engine, name, _published(registry)), trial, hermetic)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, made.text)
    for line in made.seen:
        click.echo(visible(line))
    click.echo(f"wrote {file}")
    for line in made.missing:
        say(f"left to you: {line}")
    target = f"{engine}={path}" if path else f"{engine}@{made.version}"
    click.echo(f"next: turngate --contracts {file.parents[1]} probe {target}")
    return 2 if made.missing else 0


@contextmanager
def _obtained(registry: Registry | None, path: Path | None, version: str, interrupt: Interrupt) -> Iterator[Path]:
    """Return the executable at a path, or install it, and keep it in the cache while the block runs."""
    if registry is None:
        assert path  # noqa: S101 - one of both is given
        yield path.absolute()
        return
    with interrupt.covering() as stop:
        exact = registry.exact(version, stop)
    with in_use(registry.root(exact)):
        with interrupt.covering() as stop:
            installed = registry.install(exact, say, stop)
        yield installed.executable


def _published(registry: Registry | None) -> dict[str, Any]:
    if registry is None:
        return {}
    where = {"executables": list(registry.executables)} if registry.name == "npm" else {}
    return {registry.name: {"package": registry.package, **where}}


def _text(source: str) -> str:
    try:
        return Path(source).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{source} can't be read: {error}") from error
