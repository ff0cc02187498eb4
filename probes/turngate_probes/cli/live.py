"""Asks for consent, and probes with the user's own account."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import click

from turngate.errors import EnvironmentFailed
from turngate.sanitize import command_line
from turngate_probes import report
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.harness.live import CLAUSES, TOKENS, TURNS, planned, prompts, steps
from turngate_probes.harness.runner import CaseRunner
from turngate_probes.journal.journal import Journal
from turngate_probes.probe import Probe, ProbeSettings, journal_path, sandboxes_path
from turngate_probes.releases.source import Release, ReleaseSource, Target

LONGEST = 200
_say = partial(click.echo, err=True)


def probe_live(
    releases: Sequence[Release], interrupt: Interrupt, json_to: str | None, reports: Sequence[Path], *, strict: bool
) -> int:
    """Probe what was consented to and report on it; return the exit code."""
    console, path = report.console_for(json_to), journal_path(None)
    more = (steps(),)
    settings = ProbeSettings("live", 1, sandboxes_path(None), keep=False, strict=strict, clauses=CLAUSES, more=more)
    runner = CaseRunner.of(settings.sandboxes, 1, interrupt, account=dict(os.environ))
    with report.live(console) as listener:
        journal = Journal(path, [listener])
        try:
            Probe(settings, journal, runner).run(releases)
        finally:
            journal.close()
    return report.publish(path, console, json_to, reports)


@contextmanager
def consented(targets: Sequence[Target], *, yes: bool) -> Iterator[list[Release]]:
    """Show what will be run, ask for consent, and hold the releases while the block runs.

    EnvironmentFailed: no consent, or a release is not available.
    """
    if os.environ.get("CI") and not yes:
        raise EnvironmentFailed("a live probe spends the account's money, and CI is set", "say --yes to have it run")
    source = ReleaseSource()
    with ExitStack() as holding:
        releases = [holding.enter_context(source.held(target, _say)) for target in dict.fromkeys(targets)]
        for release in releases:
            _describe(release)
        total = f"{len(targets) * TURNS} turns, about {len(targets) * TOKENS} tokens of ours"
        _say(f"In all {total}; each engine adds its own instructions, often thousands of tokens.")
        if not yes and not _answered_yes():
            raise EnvironmentFailed("nothing was run", "answer yes, or say --yes")
        yield releases


def _answered_yes() -> bool:
    try:
        return click.confirm("Run this with your own account?", err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        return False  # there is nobody to answer


def _describe(release: Release) -> None:
    if release.executable is None:
        raise EnvironmentFailed(f"{release.name} has no executable", "name one as ENGINE=/path/to/it")
    _say(f"{release.name} ({release.executable}) will be run {TURNS} times, in your environment:")
    for argv, prompt in zip(planned(release.contract), prompts(), strict=True):
        shown = "" if prompt in argv else f"  with the prompt {prompt!r} on standard input"
        _say(f"  $ {command_line(argv, LONGEST)}{shown}")
    _say("  in an empty directory; the session stays in your own store")
