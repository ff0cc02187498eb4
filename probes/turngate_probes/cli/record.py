"""The subcommand `contracts record`, which records real CLIs."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from turngate.sanitize import visible
from turngate_probes.cli.shared_options import folder, jobs_option, say, target_arguments

if TYPE_CHECKING:
    from turngate_probes.releases.target import Target


@click.command()
@target_arguments(required=True)
@jobs_option()
@click.option("--case", "only", multiple=True, metavar="NAME", help="Record only these cases (repeatable).")
@click.option(
    "--into",
    type=folder(),
    metavar="DIR",
    help="Where recordings go. Required, except in a checkout of turngate.  [default there: fixtures]",
)
@click.option("--note", default="", metavar="TEXT", help="Add a note to the provenance of each recording.")
def record(targets: "list[Target]", jobs: int | None, only: tuple[str, ...], into: Path | None, note: str) -> int:
    """Record the output of real releases for tests that need no engine.

    TARGET as in `turngate probe`. Session ids, times, paths and other volatile text become placeholders, so
    that recording the same release again changes only the provenance. If a turn reaches its deadline, its case is
    recorded again, alone. If that fails on a busy machine, nothing is changed. Requests are saved without the texts
    that the engine wrote. `turngate contracts check` rejects recordings that contain more.

    \b
    turngate contracts record codex@0.169.0
    turngate contracts record gemini@0.61.0 --case main --into /tmp/recordings

    Exit codes: 0 recorded; 2 a release could not be recorded, or --into is missing.
    """
    from contextlib import ExitStack
    from functools import partial

    from turngate import TurngateError
    from turngate.process.sessions import adopting_orphans
    from turngate_probes.harness.cases import RECORDED
    from turngate_probes.harness.interrupt import Interrupt, interrupting
    from turngate_probes.harness.runner import CaseRunner
    from turngate_probes.probe_settings import default_jobs, sandboxes_path
    from turngate_probes.record.recorder import record as record_release
    from turngate_probes.releases import recorded_releases
    from turngate_probes.releases.source import ReleaseSource
    from turngate_probes.report.progress import heartbeats

    if unknown := sorted(set(only) - {case.name for case in RECORDED}):
        raise click.UsageError(f"unknown case: {', '.join(unknown)}; cases: {', '.join(c.name for c in RECORDED)}")
    cases = [case for case in RECORDED if not only or case.name in only]
    fixtures = into or recorded_releases.default_folder()
    if fixtures is None:
        raise click.UsageError("this is not a checkout of turngate: pass a folder for the recordings with --into DIR")
    interrupt, source, failed = Interrupt(), ReleaseSource(), 0
    runner = CaseRunner.of(sandboxes_path(None), jobs or default_jobs(), interrupt)
    with adopting_orphans(), interrupting(interrupt.set):
        for target in targets:
            try:
                with ExitStack() as holding:
                    with interrupt.scope() as stop:
                        release = holding.enter_context(source.held(target, say, stop))
                    with heartbeats(partial(_still, release.name), interrupt):
                        done = record_release(release, cases, runner, fixtures, interrupt, note)
            except TurngateError as error:
                say(f"{target}: {error}")
                failed += 1
                continue
            click.echo(f"{release.name}: {done.written} turns and pages in {done.folder}")
            for case in done.repeated:
                click.echo(f"  {case} was recorded again, because a turn reached its deadline")
            for case, why in sorted(done.early.items()):
                click.echo(f"  {case} ended early: {visible(why)}")
    return 2 if failed else 0


def _still(release: str) -> float:
    """Say that a recording goes on, and return the seconds until that is due again."""
    from turngate_probes.report.progress import HEARTBEAT

    say(f"{release}: still recording; a turn that hangs is ended after its deadline")
    return HEARTBEAT
