"""The subcommand `history`."""

from typing import TYPE_CHECKING

import click

from turngate_probes.cli.shared_options import as_json_option, engines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from msgspec import Struct

    from turngate_probes.report.lines import Line


@click.command()
@click.argument("engine", required=False, shell_complete=engines)
@click.option("--from", "since", metavar="VERSION", help="Show only what changed after this release.")
@click.option("--to", "until", metavar="VERSION", help="Show only what changed up to this release.")
@as_json_option
def history(engine: str | None, since: str | None, until: str | None, *, as_json: bool) -> int:
    """Show which release of an engine changed what, without running anything.

    Lists the tested releases, newest first, each with its verdict, its known caveats, and how it differs from the
    one before it: records and keys of its output, options, exit codes, tools, requests, and clauses. The data is
    part of turngate. Without ENGINE, list the engines.

    \b
    turngate history codex
    turngate history codex --from 0.147.0 --to 0.169.0
    turngate history claude --json

    `turngate gate` tests the releases that you name; `turngate probe` tests one that is not listed.

    Exit codes: 0; 2 if the engine or a release is unknown.
    """
    from turngate import UsageError, history
    from turngate_probes.report.history import history_lines, history_report, summary, summary_lines

    if engine is None:
        if since or until:
            raise UsageError("--from and --to need an engine", "write `turngate history ENGINE --from VERSION`")
        listed = tuple(summary(history.load(name)) for name in history.engines())
        _print(listed, summary_lines(listed), as_json=as_json)
    elif "@" in engine:
        name, _, version = engine.partition("@")
        raise UsageError(f"{engine!r} is not just an engine", f"write `turngate history {name} --to {version}`")
    else:
        since, until = (end and end.removeprefix(f"{engine}@").removeprefix("v") for end in (since, until))
        report = history_report(history.load(engine), since, until)
        if since and report.since != since:
            click.echo(f"--from {since} is newer than --to {until}, so they are taken in the other order", err=True)
        _print(report, history_lines(report), as_json=as_json)
    return 0


def _print(data: "Struct | tuple[Struct, ...]", lines: "Iterable[Line]", *, as_json: bool) -> None:
    import msgspec

    from turngate_probes.report.lines import print_line
    from turngate_probes.report.publish import Printer

    if as_json:
        click.echo(msgspec.json.encode(data))
        return
    console = Printer().console
    for depth, line in lines:
        print_line(console, depth, line)
