"""The subcommands that meet real CLIs, or stand for one: `probe`, `contracts`, `engines`, `simulate`.

The first line of each function's docstring is what `turngate --help` shows, read without importing this.
"""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from turngate_probes.report_option import report_option
from turngate_probes.simulate.sticky.faults import FAULTS

SIGNALLED = 128  # and the number of the signal: the exit code of what died of one


@click.command()
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
@click.option(
    "--level",
    type=click.Choice(["static", "hermetic", "orchestrated", "live"]),
    default="hermetic",
    show_default=True,
    help="static: version and help text alone; hermetic: the real CLI against a stub model backend; "
    "orchestrated: the same through the reference server, and that alone; "
    "live: two turns with your own account, after asking you.",
)
@click.option("--jobs", type=click.IntRange(1, 256), help="Engines at once.  [default: one a core, and one more]")
@click.option("--json", "json_to", metavar="FILE", help="Write the JSON report; `-` is standard output.")
@report_option
@click.option("--strict", is_flag=True, help="Degraded releases and stale deviations fail too.")
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep every sandbox and the journal in DIR.",
)
@click.option("--clause", "clauses", multiple=True, metavar="ID", help="Ask this clause alone, and what it needs.")
@click.option("--yes", is_flag=True, help="Consent to a live probe beforehand.")
def probe(  # noqa: PLR0913 - as it has options
    targets: tuple[str, ...],
    level: str,
    jobs: int | None,
    json_to: str | None,
    strict: bool,
    keep: Path | None,
    clauses: tuple[str, ...],
    reports: tuple[Path, ...],
    yes: bool,
) -> int:
    """Run real engines against their contracts, without account or network.

    TARGET is ENGINE (the one on PATH, else the pinned release), ENGINE@VERSION (installed from npm into
    a cache, without install scripts) or ENGINE=/path/to/executable. Without a target every contracted
    engine is probed.

    \b
    turngate probe
    turngate probe codex@0.169.0 --json report.json --report report.html
    turngate probe gemini=./node_modules/.bin/gemini --strict
    turngate probe --level orchestrated codex gemini opencode
    turngate probe --level live codex

    Exit codes: 0 all compatible or degraded; 1 some release is broken; 2 some question was not
    answered, or could not be asked; 130 interrupted. With --strict, degraded is 1.
    """
    from turngate import load  # noqa: PLC0415 - imported when asked for, so that --help is quick
    from turngate_probes import report  # noqa: PLC0415
    from turngate_probes.interrupt import Interrupt  # noqa: PLC0415
    from turngate_probes.journal import Journal  # noqa: PLC0415
    from turngate_probes.probe import Probe, Settings, default_jobs, journal_path, sandboxes_path  # noqa: PLC0415
    from turngate_probes.selection import known_clauses  # noqa: PLC0415
    from turngate_probes.targets import parse_target  # noqa: PLC0415

    asked = [parse_target(text) for text in targets or load.engines()]
    if level == "live":
        from turngate_probes.live.order import consented, probe_live  # noqa: PLC0415

        if clauses or keep or not targets:
            raise click.UsageError("name what to probe live; neither --clause nor --keep goes with it")
        # a signal at the question ends the command, as anywhere else
        with consented(asked, yes=yes) as found, _interrupting((interrupt := Interrupt()).set):
            return probe_live(found, interrupt, json_to, reports, strict=strict)
    only = known_clauses(clauses, level)
    settings = Settings(level, jobs or default_jobs(), sandboxes_path(keep), keep is not None, strict, only)
    console = report.console_for(json_to)
    path = journal_path(keep)
    with report.live(console) as listener:
        journal = Journal(path, [listener])
        try:
            running = Probe(settings, journal)
            with _interrupting(running.interrupt.set):
                running.run(asked)
        finally:
            journal.close()
    return report.publish(path, console, json_to, reports)


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--install", "folder", type=click.Path(path_type=Path), metavar="DIR", help="Write DIR/<executable>.")
@click.option(
    "--fault",
    "faulty",
    multiple=True,
    type=click.Choice(tuple(FAULTS)),
    help="What it does wrong when its process is kept over several turns; see docs/simulate.md (repeatable).",
)
@click.argument("target", metavar="ENGINE[@VERSION]")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[--] [ARG]...")
def simulate(target: str, arguments: tuple[str, ...], folder: Path | None, faulty: tuple[str, ...]) -> int:
    """Run a simulated engine: a stand-in for a release, driven by its contract.

    The ARGs are those of the engine, including those that keep its process over several turns. Sessions are kept
    where the engine would keep them (below $HOME). The model's answers come from the chat-completions backend at
    TURNGATE_SIMULATE_URL. Without one it plays a short conversation by itself: it asks a question, then, in a process
    that is kept, for permission to act, and ends. TURNGATE_SIMULATE_REPLY replaces all that it says.

    Options stand before ENGINE or, with no ARGs, after it.

    \b
    turngate simulate codex@0.169.0 exec --json --skip-git-repo-check -- 'Which colour?'
    turngate simulate codex@0.169.0 --install ./bin && PATH=$PWD/bin:$PATH codex --version
    turngate simulate gemini --fault dies-after-turn --install ./bin
    """
    if arguments[:1] in {("--install",), ("--fault",)}:
        if len(arguments) % 2:
            raise click.UsageError(f"option {arguments[-1]!r} requires an argument")
        before = [*(["--install", str(folder)] if folder else []), *(f"--fault={name}" for name in faulty)]
        return int(simulate.main([*before, *arguments, target], "turngate simulate", standalone_mode=False))
    from turngate import load  # noqa: PLC0415 - imported when asked for, so that --help is quick
    from turngate_probes import recordings  # noqa: PLC0415
    from turngate_probes.releases import pinned_version  # noqa: PLC0415
    from turngate_probes.simulate import process  # noqa: PLC0415
    from turngate_probes.targets import parse_target  # noqa: PLC0415

    asked = parse_target(target)
    version = asked.version or pinned_version(asked.engine) or recordings.newest(asked.engine)
    contract = load.contract(asked.engine).at(version)
    if folder is None:
        return process.simulate(contract, arguments[1:] if arguments[:1] == ("--",) else arguments, faulty)
    click.echo(process.install(contract, folder.absolute(), faulty))
    return 0


@click.group()
def contracts() -> None:
    """Validate engine contracts."""


@contracts.command()
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="[FILE]...")
@click.option(
    "--fixtures", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR",
    help="Compare the contracts with the recordings in DIR.  [default: those beside them, and of the checkout]",
)  # fmt: skip
@click.option("--broken", multiple=True, metavar="ENGINE@VERSION", help="Excuse a release that is known to be broken.")
def check(files: Sequence[Path], fixtures: Path | None, broken: tuple[str, ...]) -> int:
    """Find every mistake in contract files, or without FILE in all packaged contracts.

    Each mistake is reported with file, line and fix: wrong or missing keys and values, useless evidence, overlapping
    entries, and claims that recordings contradict. Broken releases are listed in `broken.yaml` beside their recordings.

    Exit codes: 0 no mistakes; 2 at least one. Unverified claims are reported but don't fail.
    """
    from turngate import load  # noqa: PLC0415 - as above
    from turngate.errors import ContractError  # noqa: PLC0415
    from turngate.overlay import contract_files, name_of, simulation_files  # noqa: PLC0415
    from turngate_probes import lint  # noqa: PLC0415
    from turngate_probes.record.beside import beside  # noqa: PLC0415

    wrong = 0
    for name, file in [(str(f), f) for f in files] or [
        (name_of(f), f) for f in (*contract_files().values(), *simulation_files().values())
    ]:
        try:
            document = load.read(file, name)
            found = list(lint.findings(document, beside(file, fixtures), broken))
        except ContractError as unreadable:
            found = [unreadable]
        wrong += len(found)
        for mistake in found:
            click.echo(str(mistake), err=True)
        if not found:
            doubted = lint.unverified(document)
            click.echo(f"{name}: valid" + (f", unverified: {', '.join(doubted)}" if doubted else ""))
    return 2 if wrong else 0


@click.group()
def engines() -> None:
    """List the contracted engines, and install their pinned releases."""


@engines.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_engines(as_json: bool) -> None:
    """List every engine: contract, lifecycle, pinned release, and what is on PATH."""
    import json  # noqa: PLC0415
    import shutil  # noqa: PLC0415

    from turngate import load  # noqa: PLC0415 - as above
    from turngate_probes.releases import pinned_version  # noqa: PLC0415

    rows = []
    for name in load.engines():
        known = load.contract(name).at()
        rows.append(
            {
                "engine": name,
                "title": known.title,
                "contract": known.contract_version,
                "lifecycle": known.lifecycle.status,
                "pinned": pinned_version(name),
                "on_path": shutil.which(known.executable),
            }
        )
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
    from turngate import load  # noqa: PLC0415 - as above
    from turngate_probes.releases import default_cache, install, pinned_version  # noqa: PLC0415
    from turngate_probes.targets import parse_target  # noqa: PLC0415

    pinned = [name for name in load.engines() if pinned_version(name)]
    for target in map(parse_target, names or pinned):
        version, npm = target.version or pinned_version(target.engine), load.contract(target.engine).at().npm
        if npm is None or version is None:
            raise click.UsageError(f"{target.engine} has no release that npm could install")
        done = install(target.engine, npm, version, default_cache(), say=lambda text: click.echo(text, err=True))
        click.echo(f"{done.engine}@{done.version} {done.executable}")
    return 0


@contextmanager
def _interrupting(interrupt: Callable[[], None]) -> Iterator[None]:
    """Call `interrupt` at the first SIGINT or SIGTERM; the second one kills."""
    from turngate.runtime.signals import heard  # noqa: PLC0415 - as above

    heard_before: list[signal.Signals] = []

    def tell(number: signal.Signals) -> None:
        if heard_before:
            os._exit(SIGNALLED + number)
        heard_before.append(number)
        interrupt()

    with heard((signal.SIGINT, signal.SIGTERM), tell):
        yield
