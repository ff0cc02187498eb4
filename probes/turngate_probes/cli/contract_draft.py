"""`contracts new`: gets an unknown CLI, tries it, and writes the draft of its contract."""

import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from turngate import ContractError, UsageError
from turngate.contract import lint, load
from turngate.contract.hermetic import Hermetic
from turngate.contract.home_and_workspace import SetupFile
from turngate.files import contract_files, overlay, write_atomically
from turngate.process.sessions import adopting_orphans
from turngate.sanitize import visible
from turngate_probes.cli.shared_options import say
from turngate_probes.draft.contract import Engine, draft, reported
from turngate_probes.draft.trial import Command, attempt, every_variable
from turngate_probes.harness.interrupt import Interrupt, interruptible
from turngate_probes.harness.sandbox import sandbox
from turngate_probes.probe_settings import sandboxes_path
from turngate_probes.releases.cache import in_use
from turngate_probes.releases.npm import NpmRegistry
from turngate_probes.releases.pypi import PypiRegistry
from turngate_probes.releases.registry import Registry

DEFAULT = Path("my")


class DraftOptions(Struct, frozen=True, kw_only=True):
    """What `contracts new` was given; the options are described on its help page."""

    engine: str
    npm_package: str | None
    pypi_package: str | None
    path: Path | None
    version: str
    env: Mapping[str, str]
    files: Mapping[str, str]
    start_args: str | None
    resume_args: str | None
    model: str
    into: Path | None
    force: bool


def write(options: DraftOptions) -> int:
    """Write a draft, and print what was seen and how many gaps it has; return the exit code.

    TurngateError: there is a contract already, or the CLI can't be installed.
    """
    folder = options.into or overlay() or DEFAULT
    here = folder.is_relative_to(Path.cwd())  # as the user writes it
    file = (folder.relative_to(Path.cwd()) if here else folder) / "engines" / f"{options.engine}.yaml"
    if not re.fullmatch("[a-z][a-z0-9-]*", options.engine):
        raise click.UsageError(f"{options.engine!r} is not a name for an engine; use small letters, digits and -")
    if sum(source is not None for source in (options.npm_package, options.pypi_package, options.path)) != 1:
        raise click.UsageError("pass one of --npm PACKAGE, --pypi PACKAGE and --path FILE")
    start = _template("--start-args", options.start_args, "{options}", "{prompt}")
    resume = _template("--resume-args", options.resume_args, "{options}", "{handle}", "{prompt}")
    if not options.force:
        _check_replaceable(options.engine, file, own=options.into is not None)
    name = options.path.name if options.path else options.engine
    registry: Registry | None = None
    if options.npm_package:
        registry = NpmRegistry(options.engine, options.npm_package, (f"node_modules/.bin/{name}",))
    elif options.pypi_package:
        registry = PypiRegistry(options.engine, options.pypi_package, (name,))
    templates = tuple(SetupFile(where, _text(source)) for where, source in options.files.items())
    hermetic = Hermetic(env=options.env or every_variable(), files=templates, model=options.model)
    with (
        adopting_orphans(),
        interruptible() as interrupt,
        _obtained(registry, options.path, options.version, interrupt) as found,
    ):
        program, release = found
        with sandbox(hermetic, sandboxes_path(None), f"new-{options.engine}", keep=False) as box:
            trial = attempt(Command(program, hermetic, start, resume), box, interrupt)
    described = Engine(options.engine, name, _published(registry), release, tuple(options.env))
    text = draft(described, trial)
    for line in reported(trial):
        click.echo(visible(line))
    _replace(file, text)
    return _next(file, f"{options.engine}={options.path}" if options.path else f"{options.engine}@{release}")


def _template(option: str, text: str | None, *slots: str) -> tuple[str, ...]:
    """Split the arguments of an option; click.UsageError unless each slot is an argument of its own, once."""
    tokens = tuple(shlex.split(text or ""))
    # a session id may be a part of an argument, such as --resume={handle}
    counts = [sum(slot in token if slot == "{handle}" else slot == token for token in tokens) for slot in slots]
    if tokens and counts != [1] * len(slots):
        raise click.UsageError(f"{option} needs each of {', '.join(slots)} once, such as '--json {' '.join(slots)}'")
    return tokens


def _check_replaceable(engine: str, file: Path, *, own: bool) -> None:
    """UsageError if there is a contract that is no unfinished draft in this file."""
    if file.exists():
        with suppress(ContractError):
            if load.read(file).gaps():
                return
    elif own or engine not in contract_files():
        return
    existing = file if file.exists() else contract_files()[engine]
    hint = "choose another name, or pass --force to use the draft instead"
    raise UsageError(f"there is a contract already, and it has no gaps: {existing}", hint)


def _replace(file: Path, text: str) -> None:
    """Write a draft; a contract that was there is kept as `…~`, or else as `…~2`, and so on; no command reads those."""
    if file.exists():
        names = (file.with_name(f"{file.name}~{number if number > 1 else ''}") for number in count(1))
        old = next(name for name in names if not name.exists())
        file.replace(old)
        say(f"the contract that was there is now {old}")
    write_atomically(file, text)


def _next(file: Path, target: str) -> int:
    """Print what is left to do; return the exit code, 2 if the draft has mistakes other than gaps."""
    problems = list(lint.problems(load.read(file)))
    gaps = [problem for problem in problems if problem.what == lint.IS_GAP]
    for mistake in problems:
        if mistake.what != lint.IS_GAP:
            say(str(mistake))
    click.echo(f"wrote {file}, with {len(gaps)} gap{'s' * (len(gaps) != 1)}")
    for number, gap in enumerate(gaps, 1):
        click.echo(f"  {number}. line {gap.line}: {gap.path}")
    if gaps:
        click.echo(f"The comment above each section of {file} says how to fill its gaps.")
    check, probe = ("contracts", "check", str(file)), ("--contracts", str(file.parents[1]), "probe", target)
    click.echo(f"next: {shlex.join(('turngate', *(check if problems else probe)))}")
    return 2 if len(gaps) < len(problems) else 0


@contextmanager
def _obtained(
    registry: Registry | None, path: Path | None, version: str, interrupt: Interrupt
) -> Iterator[tuple[Path, str | None]]:
    """Return an executable, with the release if it is installed, which is kept in the cache while the block runs."""
    if registry is None:
        assert path  # noqa: S101 - one of both is given
        yield path.absolute(), None
        return
    with interrupt.scope() as stop:
        exact = registry.exact(version, stop)
    with in_use(registry.root(exact)):
        with interrupt.scope() as stop:
            installed = registry.install(exact, say, stop)
        yield installed.executable, exact


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
