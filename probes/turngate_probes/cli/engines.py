"""The subcommand `engines`."""

from typing import TYPE_CHECKING

import click

from turngate_probes.cli.shared_options import as_json_option, say, targets

if TYPE_CHECKING:
    from turngate import Stop


@click.group()
def engines() -> None:
    """List the supported engines, and install their pinned releases."""


@engines.command("list")
@click.option("--newest", is_flag=True, help="Look up the newest release of each engine in the registries.")
@as_json_option
def list_engines(newest: bool, as_json: bool) -> None:
    """List every engine, its pinned release, and what is on PATH.

    Additional engines are those that `turngate engines install` and `turngate probe --pinned` leave out unless named.
    """
    import json
    import shutil

    from turngate import engine_names, load_contract
    from turngate.process.sessions import adopting_orphans
    from turngate_probes.harness.interrupt import interruptible
    from turngate_probes.releases.pins import pinned_version

    rows = list[dict[str, str | bool | None]]()
    for name, contract in ((name, load_contract(name)) for name in engine_names()):
        row: dict[str, str | bool | None] = {
            "engine": name,
            "title": contract.title,
            "contract": contract.contract_version,
            "lifecycle": contract.lifecycle.status,
            "pinned": pinned_version(name),
            "on_path": shutil.which(contract.executable),
            "additional": contract.additional,
        }
        rows.append(row)
    if newest:
        with adopting_orphans(), interruptible() as interrupt, interrupt.scope() as stop:
            rows = [row | _newest(str(row["engine"]), stop) for row in rows]
            if interrupt.is_set():
                raise KeyboardInterrupt
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    for row in rows:
        where = f"{row['on_path'] or 'not on PATH'}{' (additional)' if row['additional'] else ''}"
        published = f"newest {row['newest'] or '-':10} " if newest else ""
        click.echo(f"{row['engine']:10} {row['lifecycle']:11} pinned {row['pinned'] or '-':10} {published}{where}")
    for problem in dict.fromkeys(row["problem"] for row in rows if row.get("problem")):
        say(f"{', '.join(str(row['engine']) for row in rows if row['problem'] == problem)}: {problem}")


def _newest(engine: str, stop: "Stop") -> dict[str, str | bool | None]:
    from turngate import TurngateError
    from turngate_probes.releases.registry import LATEST
    from turngate_probes.releases.source import default_registry

    registry = default_registry(engine)
    if registry is None:
        return {"newest": None, "problem": "not published"}
    try:
        return {"newest": registry.exact(LATEST, stop), "problem": None}
    except TurngateError as failed:
        return {"newest": None, "problem": failed.what}


@engines.command("install")
@click.argument("names", nargs=-1, metavar="[ENGINE[@VERSION]]...", shell_complete=targets)
def install_engines(names: tuple[str, ...]) -> int:
    """Install pinned or named releases into the cache.

    Without names, additional engines are left out. No install script runs. An interrupted installation leaves nothing.
    """
    from turngate import NotFoundError, engine_names, load_contract
    from turngate.process.sessions import adopting_orphans
    from turngate_probes.harness.interrupt import interruptible
    from turngate_probes.releases.pins import pinned_version
    from turngate_probes.releases.source import ReleaseSource, default_registry, not_pinned
    from turngate_probes.releases.target import Target, parse_target

    pinned = [name for name in engine_names() if not not_pinned(name)]
    with adopting_orphans(), interruptible() as interrupt, interrupt.scope() as stop:
        for target in map(parse_target, names or pinned):
            version = target.version or pinned_version(target.engine)
            if default_registry(target.engine) is None or version is None:
                note = load_contract(target.engine).lifecycle.note
                raise NotFoundError(f"turngate has no release of {target.engine} to install", note)
            with ReleaseSource().held(Target(target.engine, version), say, stop) as release:
                click.echo(f"{release.name} {release.executable}")
    return 0
