"""`contracts migrate`: shows what today's schemas change in contracts and simulations, or changes it."""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import click
from msgspec import Struct, json
from msgspec.structs import replace

from turngate import ContractError
from turngate.contract import lint, load
from turngate.contract.migrate import Change, migrate
from turngate.files import real_path, write_atomically
from turngate.sanitize import visible
from turngate_probes.cli.shared_options import say


class Moved(Struct, frozen=True):
    """What became of a file; `schema` is the one that it is moved to, and `number` that of the one that it had.

    Both are null if it is neither a contract nor a simulation. `mistakes` only the author can mend, at places of the
    moved text, or of the file if it can't be moved.
    """

    file: str
    state: Literal["current", "outdated", "written", "refused"]
    schema: str | None = None
    number: int | None = None
    changes: tuple[Change, ...] = ()
    diff: str = ""
    mistakes: tuple[ContractError, ...] = ()


class Report(Struct, frozen=True):
    """The files."""

    files: tuple[Moved, ...]


def migrate_all(paths: Iterable[Path], *, write: bool, as_json: bool) -> int:
    """Move contracts and simulations, show or write the result, and return the exit code."""
    files = [file for path in paths for file in files_of(path)]
    moved = [_move(file, write=write) for file in dict.fromkeys(files)]
    if as_json:
        click.echo(json.format(json.encode(Report(tuple(moved)), enc_hook=_mistake), indent=2).decode())
    for one in moved:
        if not as_json:
            click.echo(visible(one.diff, keep="\n\t\r"), nl=False)
        for line in _told(one):
            say(line)
    if any(one.state == "refused" or one.mistakes for one in moved):
        return 2
    return 1 if any(one.state == "outdated" for one in moved) else 0


def files_of(path: Path) -> Sequence[Path]:
    """Return the contracts of a folder: those in `engines`, with `simulations`, or its own; a file is itself.

    click.UsageError if a folder has none.
    """
    if not path.is_dir():
        return [path]
    found = sorted([*path.glob("engines/*.yaml"), *path.glob("simulations/*.yaml")]) or sorted(path.glob("*.yaml"))
    if not found:
        raise click.UsageError(f"{path} has no contracts; they are files such as {path}/engines/acme.yaml")
    return found


def _move(file: Path, *, write: bool) -> Moved:
    name = str(file)
    try:
        text = load.text_of(file)
        migration = migrate(text, name)
    except ContractError as refused:
        return Moved(name, "refused", mistakes=(refused,))
    left = [error for error in lint.problems(load.parse(migration.text, name)) if error.what != lint.IS_GAP]
    moved = Moved(name, "current", migration.schema, migration.number, migration.changes, mistakes=tuple(left))
    if migration.text == text:
        return moved
    if write:
        real = real_path(file)  # a link stays one
        mode = real.stat().st_mode
        write_atomically(real, migration.text)
        real.chmod(mode)
        return replace(moved, state="written")
    old, new = text.splitlines(keepends=True), migration.text.splitlines(keepends=True)
    lines = difflib.unified_diff(old, new, name, name)
    whole = (line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    return replace(moved, state="outdated", diff="".join(whole))


def _mistake(error: ContractError) -> dict[str, object]:
    return {name: getattr(error, name) for name in ("line", "column", "path", "what", "hint")}


def _told(moved: Moved) -> Iterator[str]:
    """Say what became of a file, what it no longer says, and what is left to its author."""
    count = f"{len(moved.changes)} change{'s' * (len(moved.changes) != 1)}"
    if moved.state == "current":
        yield f"{moved.file}: has {moved.schema}"
    elif moved.state == "outdated":
        yield f"{moved.file}: {count} to {moved.schema}; --write makes {'it' if len(moved.changes) == 1 else 'them'}"
    elif moved.state == "written":
        yield f"{moved.file}: moved to {moved.schema}, {count}"
    yield from (f"{moved.file}:{change.line}: {change.what}" for change in moved.changes if change.lost)
    if moved.mistakes and moved.state != "refused":
        yield f"{moved.file}: left to you{', at the lines of the new text' * (moved.state == 'outdated')}:"
    yield from map(str, moved.mistakes)
