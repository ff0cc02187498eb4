"""The subcommand `contracts`."""

import re
import shlex
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import click

from turngate import Mode
from turngate.cli import needs_contracts
from turngate_probes.cli.record import record
from turngate_probes.cli.shared_options import as_json_option, file, folder, say, targets


@click.group()
@click.pass_context
def contracts(ctx: click.Context) -> None:
    """Draft, validate and migrate engine contracts, and record releases."""
    if ctx.invoked_subcommand != "new":
        needs_contracts()


contracts.add_command(record)


@contracts.command()
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path), metavar="[PATH]...")
@click.option(
    "--fixtures",
    type=folder(exists=True),
    metavar="DIR",
    help="Compare the contracts with the recordings in DIR.  [default: those next to them, and in the checkout]",
)
@click.option("--broken", multiple=True, metavar="ENGINE@VERSION", help="Excuse a release that is known to be broken.")
def check(paths: Sequence[Path], fixtures: Path | None, broken: tuple[str, ...]) -> int:
    """Find every mistake in contract files.

    PATH is a file, or a folder of them. Without PATH, all packaged contracts are checked. Each mistake is reported with
    file, line and fix: wrong or missing keys and values, useless evidence, overlapping entries, and claims that
    recordings contradict. List broken releases in `broken.yaml` next to their recordings.

    Exit codes: 0 no mistakes; 2 at least one. Unverified claims, and a missing `hermetic.tool_call`, are reported but
    don't fail.
    """
    from turngate import ContractError
    from turngate.contract import lint, load
    from turngate.files import contract_files, name_of, simulation_files
    from turngate_probes.cli import contract_check
    from turngate_probes.cli.contract_migrate import files_of
    from turngate_probes.releases.recorded_releases import contract_recordings

    wrong, todo, valid = 0, "", dict[Path, load.Document]()
    again = ["turngate", "contracts", "check", *(("--fixtures", str(fixtures)) if fixtures else ())]
    again += [word for release in broken for word in ("--broken", release)]
    packaged = (*contract_files().values(), *simulation_files().values())
    for path in [one for place in paths for one in files_of(place)] or packaged:
        name = str(path) if paths else name_of(path)
        try:
            document, recordings = load.read(path, name), contract_recordings(path, fixtures)
            mistakes = list(contract_check.findings(document, recordings, broken))
        except ContractError as unreadable:
            mistakes = [unreadable]
        wrong += len(mistakes)
        gaps = sum(mistake.what == lint.IS_GAP for mistake in mistakes)
        number = count(1)
        for mistake in mistakes:
            say(f"gap {next(number)} of {gaps}: {mistake}" if mistake.what == lint.IS_GAP else str(mistake))
        if mistakes:
            first = "fill in gap 1" if gaps else "correct it"
            todo = todo or f"next: {first}, and then {shlex.join((*again, str(path)))}"
        else:
            valid[path] = document
            doubted, without = contract_check.unverified(document), contract_check.unanswerable(document)
            count_of = contract_check.compared(document, recordings)
            releases = "1 recorded release" if count_of == 1 else f"{count_of} recorded releases"
            agreed = f", compared with {releases}" if count_of else ""
            click.echo(f"{name}: valid{agreed}" + (f", unverified: {', '.join(doubted)}" if doubted else ""))
            for place, call in without:
                why = contract_check.CALLS[call]
                click.echo(f"{name}: {place} names no {call}, so no release is compatible: {why}")
    if todo:
        say(todo)
    elif paths and (probe := contract_check.probe_of(valid)):
        click.echo(f"next: {probe}")
    return 2 if wrong else 0


@contracts.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path), metavar="PATH...")
@click.option("--write", is_flag=True, help="Replace the files, instead of showing what would change.")
@as_json_option
def migrate(paths: Sequence[Path], *, write: bool, as_json: bool) -> int:
    """Move contracts and simulations to the current schema.

    The key `schema` of a file names its schema, such as turngate.engine-contract/1. The number changes when a key is
    renamed, removed or means something else, and turngate reads no other one. PATH is such a file, or a folder of them.

    Without --write nothing is changed: the output is a diff, which `patch -p0` takes. Keys get their new
    names, and keys that are gone are removed, each with the reason. All else stays as you wrote it: comments, order and
    layout. What only you know, such as a section that is required now, is listed for you to add.

    \b
    turngate contracts migrate my                            what would change in the files
    turngate contracts migrate my --write                    change it
    turngate contracts check my/engines/acme.yaml            find what else is wrong

    Exit codes: 0 all have the current schema, with --write by now; 1 without --write, at least one would change; 2 at
    least one can't be moved, or has mistakes that only you can mend. A file that can't be moved stays as it is.
    """
    from turngate_probes.cli.contract_migrate import migrate_all

    return migrate_all(paths, write=write, as_json=as_json)


@contracts.command()
@click.argument("target", metavar="ENGINE[@VERSION]", shell_complete=targets)
@click.option("--mode", type=click.Choice([m.value for m in Mode]), default=Mode.INTERACTIVE.value, show_default=True)
@as_json_option
def options(target: str, mode: str, as_json: bool) -> None:
    """List the options that callers may pass to an engine.

    Mode auto takes every option of the contract, and replaces --yolo or --full-auto where the release has it. Mode
    interactive takes only what is listed: an option, its values, and the keys of a key=value option. A path must stay
    in the workspace, also through symbolic links.
    """
    from msgspec import json

    from turngate.argv.interactive import allowed
    from turngate.contract import load
    from turngate_probes.releases.target import parse_target

    asked = parse_target(target)
    contract = load.contract(asked.engine).at(asked.version)
    if as_json:
        listed = [o for o in contract.options if mode == Mode.AUTO.value or o.interactive is not None]
        document = {"engine": contract.engine, "release": asked.version, "mode": mode, "options": listed}
        click.echo(json.format(json.encode(document), indent=2).decode())
        return
    for line in allowed(contract, Mode(mode)):
        click.echo(line)


def _pairs(_ctx: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    for text in texts:
        if not re.match(r"[^=]+=.", text):
            raise click.BadParameter(f"{text!r} is not {option.make_metavar(_ctx)}")
    return dict(text.split("=", 1) for text in texts)


@contracts.command()
@click.argument("engine", metavar="ENGINE")
@click.option("--npm", "npm_package", metavar="PACKAGE", help="Install the engine from npm.")
@click.option("--pypi", "pypi_package", metavar="PACKAGE", help="Install the engine from PyPI.")
@click.option("--path", type=file(exists=True), metavar="FILE", help="The engine's executable.")
@click.option("--version", default="latest", show_default=True, metavar="VERSION", help="Release to install.")
@click.option(
    "--env",
    callback=_pairs,
    multiple=True,
    metavar="NAME=VALUE",
    help="Variable for the engine (repeatable). {url} is the stub model.  [default: the known ones for OpenAI, "
    "Anthropic and Gemini]",
)
@click.option(
    "--file",
    "files",
    callback=_pairs,
    multiple=True,
    metavar="PATH=FILE",
    help="Configuration file for the engine (repeatable): where it goes, such as {home}/.acme.json, and a template.",
)
@click.option("--start-args", metavar="ARGS", help="Arguments of a first turn, with {options} and {prompt}.")
@click.option("--resume-args", metavar="ARGS", help="Arguments of a resume, with {options}, {handle} and {prompt}.")
@click.option("--model", default="stub", show_default=True, metavar="NAME", help="Model name in the draft.")
@click.option("--into", type=folder(), metavar="DIR", help="Overlay for the draft.  [default: --contracts, else my]")
@click.option("--force", is_flag=True, help="Replace a contract without gaps, too.")
def new(**asked: Any) -> int:
    """Draft a contract for an engine that turngate doesn't know.

    Runs the CLI in a sandbox against the stub model: version, help, first turns, and resumes with each value that may
    be the session id. Its HOME is empty, and other connections are refused. The draft holds only what was measured. All
    else is a gap, and a comment says how to find out. If a contract with gaps is there, the draft replaces it.

    Without --start-args only version and help are measured, and whether a bare prompt reaches the model. {url} is the
    stub's address, {home} the CLI's home.

    \b
    turngate contracts new acme --path ./acme --env ACME_BASE_URL={url}/v1 --env ACME_API_KEY=stub
    turngate contracts new acme --npm @acme/cli --start-args 'run --json {options} {prompt}' \\
        --resume-args 'run --json {options} --session {handle} {prompt}'

    Exit codes: 0 the draft is written, with the number of its gaps; 2 no draft.
    """
    from turngate_probes.cli.contract_draft import DraftOptions, write

    return write(DraftOptions(**asked))
