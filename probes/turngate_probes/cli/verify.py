"""The subcommand `verify`: checks with two turns whether an engine resumes sessions."""

import click

from turngate.sanitize import visible
from turngate_probes.cli.shared_options import as_json_option, say, targets

CODES = {"proven": 0, "refuted": 1, "unproven": 2}
INTERRUPTED = 130


@click.command()
@click.argument("target", shell_complete=targets)
@as_json_option
@click.option("--until-eof", is_flag=True, help="Stop when standard input ends.")
def verify(target: str, as_json: bool, until_eof: bool) -> int:
    """Check that an engine resumes its sessions, with two turns against a stub model.

    TARGET as in `turngate probe`. The engine needs no account and no network. It runs in a sandbox, with those of
    your settings that decide what it prints and stores. The result is saved, and `turngate serve` uses it until the
    executable or these settings change. Without such settings, a full `turngate probe` takes precedence.

    \b
    turngate verify codex
    turngate verify codex=/path/to/codex --json

    Exit codes: 0 it resumes; 1 it does not; 2 the two turns could not be completed; 130 interrupted.
    """
    import json
    import signal

    from msgspec.structs import asdict

    from turngate.process.sessions import adopting_orphans
    from turngate.process.signals import handling_signals
    from turngate_probes.harness.interrupt import CaseStoppedError, Interrupt, at_end_of_input
    from turngate_probes.releases.source import ReleaseSource
    from turngate_probes.releases.target import parse_target
    from turngate_probes.verify import verify as verified

    interrupt = Interrupt()
    if until_eof:
        at_end_of_input(interrupt.set)
    with adopting_orphans(), handling_signals((signal.SIGINT, signal.SIGTERM), lambda _number: interrupt.set()):
        try:
            with interrupt.scope() as stop, ReleaseSource().held(parse_target(target), say, stop) as release:
                outcome = verified(release, interrupt)
        except CaseStoppedError:
            return INTERRUPTED
    click.echo(
        json.dumps(asdict(outcome)) if as_json else f"{release.name} {outcome.status}: {visible(outcome.detail)}"
    )
    return CODES[outcome.status]
