"""Asks for consent, and probes with the user's own account."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from turngate.errors import EnvironmentFailed
from turngate.process import Stop
from turngate.sanitize import command_line
from turngate_probes import report
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.harness.live import CLAUSES, TOKENS, TURNS, LiveRunner, planned, prompts, story
from turngate_probes.harness.runner import CaseRunner
from turngate_probes.journal.journal import Journal
from turngate_probes.probe import Probe, ProbeSettings, journal_path, sandboxes_path
from turngate_probes.releases.install import Say
from turngate_probes.releases.targets import Release, Target, held

LONGEST = 200


def probe_live(
    found: "Consented", interrupt: Interrupt, json_to: str | None, reports: Sequence[Path], *, strict: bool
) -> int:
    """Probe what was consented to and report on it; gives the exit code."""
    console, path = report.console_for(json_to), journal_path(None)
    asked = ProbeSettings("live", 1, sandboxes_path(None), keep=False, strict=strict, clauses=CLAUSES, more=(story(),))
    with report.live(console) as listener:
        journal = Journal(path, [listener])
        try:
            found.probe(asked, journal, interrupt).run(found.targets)
        finally:
            journal.close()
    return report.publish(path, console, json_to, reports)


@contextmanager
def consented(targets: Sequence[Target], *, yes: bool) -> Iterator["Consented"]:
    """Return what will be run and ask for consent; EnvironmentFailed: no consent, or a release can't be had."""
    if os.environ.get("CI") and not yes:
        raise EnvironmentFailed("a live probe spends the account's money, and CI is set", "say --yes to have it run")
    with ExitStack() as holding:
        found = Consented({each: holding.enter_context(held(each, _say)) for each in targets})
        for release in found.releases.values():
            _tell(release)
        total = f"{len(targets) * TURNS} turns, about {len(targets) * TOKENS} tokens of ours"
        click.echo(f"In all {total}; each engine adds its own instructions, often thousands of tokens.", err=True)
        if not yes and not _asked():
            raise EnvironmentFailed("nothing was run", "answer yes, or say --yes")
        yield found


@dataclass(frozen=True, slots=True)
class Consented:
    """The releases that were consented to."""

    releases: dict[Target, Release]

    @property
    def targets(self) -> tuple[Target, ...]:
        """What was named."""
        return tuple(self.releases)

    @contextmanager
    def find(self, target: Target, _say: Say, _stop: Stop) -> Iterator[Release]:
        """Return a release, which is held already."""
        yield self.releases[target]

    def probe(self, asked: ProbeSettings, journal: Journal, interrupt: Interrupt) -> Probe:
        """Make the probe."""
        plain = CaseRunner.of(asked.sandboxes, 1, interrupt)
        stage = LiveRunner(plain.sandboxes, plain.keep, interrupt, plain.busy, plain.waiting)
        return Probe(asked, journal, stage, self.find)


def _asked() -> bool:
    try:
        return click.confirm("Run this with your own account?", err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        return False  # there is nobody to answer


def _say(text: str) -> None:
    click.echo(text, err=True)


def _tell(release: Release) -> None:
    if release.executable is None:
        raise EnvironmentFailed(f"{release.name} has no executable", "name one as ENGINE=/path/to/it")
    click.echo(f"{release.name} ({release.executable}) will be run {TURNS} times, in your environment:", err=True)
    for argv, prompt in zip(planned(release.contract), prompts(), strict=True):
        shown = "" if prompt in argv else f"  with the prompt {prompt!r} on standard input"
        click.echo(f"  $ {command_line(argv, LONGEST)}{shown}", err=True)
    click.echo("  in an empty directory; the session stays in your own store", err=True)
