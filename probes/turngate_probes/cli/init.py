"""The subcommand `init`: writes what a project needs to gate its upgrades."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from turngate_probes.cli.shared_options import engines

if TYPE_CHECKING:
    from turngate_probes.gate.first_files import FirstFile


@click.command()
@click.argument("names", nargs=-1, metavar="[ENGINE]...", shell_complete=engines)
@click.option("--yes", is_flag=True, help="Write the files without asking.")
def init(names: tuple[str, ...], *, yes: bool) -> int:
    """Prepare this folder for turngate: its settings, and a job for its CI.

    Shows what it would write, and asks. It writes turngate.toml, and a workflow for GitHub or a job for GitLab if this
    folder has one of them. What exists stays as it is. Without ENGINE it takes the engines that files here pin, else
    those on PATH.

    \b
    turngate init
    turngate init codex claude --yes

    Exit codes: 0 written, or nothing to write; 1 not written; 2 it can't be done.
    """
    from turngate import UsageError, engine_names, load_contract
    from turngate.sanitize import visible
    from turngate_probes.gate.first_files import engines_of, first_files, has_known_ci, has_settings, source_of_turngate
    from turngate_probes.releases.project_pins import loose_pins
    from turngate_probes.releases.target import parse_target

    folder = Path.cwd()
    targets = [parse_target(name) for name in names]
    if versions := [target for target in targets if target.version or target.path]:
        raise UsageError(f"{versions[0]} is a release", f"name the engine alone: turngate init {versions[0].engine}")
    chosen = [target.engine for target in targets] or engines_of(folder)
    if not chosen and not has_settings(folder):
        if loose := loose_pins(folder, map(load_contract, engine_names())):
            raise UsageError(loose, "name the exact release there, or the engine here: turngate init ENGINE")
        what = "no file in this folder pins an engine, and none is on PATH; the folders below it are not searched"
        raise UsageError(what, "`turngate doctor` searches them, too; or name one: turngate init codex")
    files = list(first_files(folder, list(dict.fromkeys(chosen)), source_of_turngate()))
    for file in files:
        click.echo(f"{file.path}:\n" + "".join(f"  {visible(line)}\n" for line in file.text.splitlines()))
    if not has_known_ci(folder):
        click.echo("there is no folder .github and no file .gitlab-ci.yml here; in another CI, run: turngate gate")
    if not files:
        click.echo("nothing to write: the settings, and the jobs of the CI that is here, exist")
    elif not yes:
        if not sys.stdin.isatty():
            click.echo("nothing was written, because there is no terminal to ask for confirmation", err=True)
            click.echo("next: turngate init --yes" + "".join(f" {name}" for name in names))
            return 1
        if not click.confirm(f"Write {'this file' if len(files) == 1 else f'these {len(files)} files'}?"):
            return 1
    _write(folder, files)
    click.echo("next: turngate gate")
    return 0


def _write(folder: Path, files: "list[FirstFile]") -> None:
    """Write files that don't exist, and say what is left to do."""
    from turngate import MachineError

    for file in files:
        try:
            (folder / file.path).parent.mkdir(parents=True, exist_ok=True)
            with (folder / file.path).open("x", encoding="utf-8") as new:
                new.write(file.text)
        except OSError as error:
            raise MachineError(f"can't write {file.path}: {error.strerror}") from error
        click.echo(f"wrote {file.path}" + (f"; {file.then}" if file.then else ""))
