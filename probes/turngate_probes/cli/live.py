"""Asks for consent to a probe with the user's own account."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

import click

from turngate.errors import EnvironmentFailed
from turngate.sanitize import command_line
from turngate_probes.harness.live import TOKENS, TURNS, planned, prompts
from turngate_probes.releases.source import Release, ReleaseSource, Target

LONGEST = 200
_say = partial(click.echo, err=True)


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
