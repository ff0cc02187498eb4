"""The subcommand `engines`."""

import click


@click.group()
def engines() -> None:
    """List the contracted engines, and install their pinned releases."""


@engines.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_engines(as_json: bool) -> None:
    """List every engine: contract, lifecycle, pinned release, and what is on PATH."""
    import json  # noqa: PLC0415
    import shutil  # noqa: PLC0415

    from turngate.contract import load  # noqa: PLC0415 - as above
    from turngate_probes.releases.npm import pinned_version  # noqa: PLC0415

    contracts = {name: load.contract(name).at() for name in load.engines()}
    rows = [
        {
            "engine": name, "title": known.title, "contract": known.contract_version,
            "lifecycle": known.lifecycle.status, "pinned": pinned_version(name),
            "on_path": shutil.which(known.executable),
        }
        for name, known in contracts.items()
    ]  # fmt: skip
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    for row in rows:
        where = row["on_path"] or "not on PATH"
        click.echo(f"{row['engine']:10} {row['lifecycle']:11} pinned {row['pinned'] or '-':10} {where}")


@engines.command("install")
@click.argument("names", nargs=-1, metavar="[ENGINE[@VERSION]]...")
def install_engines(names: tuple[str, ...]) -> int:
    """Install pinned releases (or the named ones) into the cache, without install scripts."""
    from turngate.contract import load  # noqa: PLC0415 - as above
    from turngate_probes.releases.npm import pinned_version  # noqa: PLC0415
    from turngate_probes.releases.source import ReleaseSource, Target, parse_target  # noqa: PLC0415

    pinned = [name for name in load.engines() if pinned_version(name)]
    for target in map(parse_target, names or pinned):
        version = target.version or pinned_version(target.engine)
        if load.contract(target.engine).at().npm is None or version is None:
            raise click.UsageError(f"{target.engine} has no release that npm could install")
        with ReleaseSource().held(Target(target.engine, version), lambda text: click.echo(text, err=True)) as release:
            click.echo(f"{release.name} {release.executable}")
    return 0
