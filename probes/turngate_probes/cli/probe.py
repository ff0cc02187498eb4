"""The subcommand `probe`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from turngate.contract.clauses import Level
from turngate_probes.cli.options import SUFFIXES, clause_option, fail_on_options, folder, jobs_option, output_options


@click.command()
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
@click.option(
    "--level", type=click.Choice(["static", "hermetic", "server", "live"]), default="hermetic", show_default=True,
    help="static: version and help text alone; hermetic: the real CLI against a stub model backend; "
    "server: the same through the reference server, and that alone; "
    "live: two turns with your own account, after asking you.",
)  # fmt: skip
@jobs_option()
@output_options(*SUFFIXES)
@fail_on_options
@click.option("--keep", type=folder(), metavar="DIR", help="Keep all sandboxes and the journal in DIR.")
@clause_option
@click.option("--yes", is_flag=True, help="Consent to a live probe beforehand.")
def probe(
    targets: tuple[str, ...], level: Level, jobs: int | None, output: Any, fail_on: Any, keep: Path | None,
    clauses: tuple[str, ...], yes: bool,
) -> int:  # fmt: skip
    """Run real engines against their contracts, without account or network.

    TARGET is ENGINE (the one on PATH, else the pinned release), ENGINE@VERSION (installed from npm into
    a cache, without install scripts) or ENGINE=/path/to/executable. Without a target every contracted
    engine is probed.

    \b
    turngate probe
    turngate probe codex@0.169.0 --report report.json --report report.html
    turngate probe gemini=./node_modules/.bin/gemini --strict
    turngate probe --level server codex gemini opencode
    turngate probe --level live codex

    Exit codes: 0 no release fails; 1 a release is broken, or fails by --fail-on; 2 a question was not
    answered, or could not be asked; 130 interrupted.
    """
    import os
    from contextlib import ExitStack, closing
    from dataclasses import replace

    from turngate.contract import load
    from turngate_probes.cli.live import CLAUSES, consented, steps
    from turngate_probes.harness.interrupt import Interrupt, interrupting
    from turngate_probes.harness.runner import CaseRunner
    from turngate_probes.journal.journal import Journal, read
    from turngate_probes.probe import Probe, ProbeSettings, default_jobs, journal_path, sandboxes_path
    from turngate_probes.releases.selection import known_clauses
    from turngate_probes.releases.source import Release, Target, parse_target
    from turngate_probes.report.build import build
    from turngate_probes.report.progress import live
    from turngate_probes.report.publish import publish

    is_live, account = level == "live", None
    if is_live and (clauses or keep or not targets):
        raise click.UsageError("name what to probe live; neither --clause nor --keep goes with it")
    asked = [parse_target(text) for text in targets or load.engines()]
    subjects: Sequence[Target | Release] = asked
    only = CLAUSES if is_live else known_clauses(clauses, level)
    settings = ProbeSettings(level, jobs or default_jobs(), sandboxes_path(keep), keep is not None, fail_on, only)
    with ExitStack() as stack:
        if is_live:
            # a signal at the question ends the command, as anywhere else
            subjects = stack.enter_context(consented(asked, yes=yes))
            settings, account = replace(settings, jobs=1, more=(steps(),)), dict(os.environ)
        runner = CaseRunner.of(settings.sandboxes, settings.jobs, Interrupt(), keep=settings.keep, account=account)
        path, listener = journal_path(keep), stack.enter_context(live(output.progress))
        journal = stack.enter_context(closing(Journal(path, [listener])))
        stack.enter_context(interrupting(runner.interrupt.set))
        Probe(settings, journal, runner).run(subjects)
    return publish(build(read(path)), output, path)
