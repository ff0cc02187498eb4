"""A probe with the user's own account: two turns, run only with consent."""

import os
import secrets
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import click

from turngate import EngineContract, Mode, NotInstalledError, UsageError, first_turn, resumed_turn
from turngate.sanitize import command_line
from turngate_probes.cli.shared_options import say
from turngate_probes.harness.cases import Case
from turngate_probes.harness.driver import Ask, EngineDriver
from turngate_probes.releases.source import Release, ReleaseSource
from turngate_probes.releases.target import Target
from turngate_probes.stub_model import Text

CLAUSES = (
    "handle.present",
    "handle.place",
    "handle.shape",
    "resume.accepted",
    "resume.same-handle",
    "live.context-recalled",
)
FIRST = "Remember the word {word}. Use no tools. Answer with OK alone."
AGAIN = "Which word did I ask you to remember? Use no tools. Answer with that word alone."
TURNS = 2
TOKENS = 100  # both prompts with both answers, generously
SHOWN = "<session id>"
LONGEST = 200


def steps() -> Case:
    """Return the case, under the name that the checks look for."""
    return Case("main", _play, TURNS, level="live")


def planned(contract: EngineContract) -> tuple[tuple[str, ...], ...]:
    """Return the argv of both turns, with the prompts and a placeholder for the session id."""
    first = first_turn(contract, FIRST.format(word="<word>"), Mode.INTERACTIVE)
    again = resumed_turn(contract, AGAIN, Mode.INTERACTIVE, SHOWN)
    return tuple((contract.executable, *turn.arguments) for turn in (first, again))


def _play(driver: EngineDriver) -> None:
    word = f"tg{secrets.token_hex(4)}"
    first = driver.start("first", Ask(FIRST.format(word=word), word, Text("")))
    driver.resume("again", first.session, Ask(AGAIN, "", Text(""), turn_index=2))


@contextmanager
def consented(targets: Sequence[Target], *, yes: bool) -> Iterator[list[Release]]:
    """Show what will be run, ask for consent, and hold the releases while the block runs.

    TurngateError: no consent, or a release is not available.
    """
    if os.environ.get("CI") and not yes:
        raise UsageError("a live probe costs money, and this is a CI job (CI is set)", "pass --yes to run it anyway")
    source = ReleaseSource()
    with ExitStack() as holding:
        releases = [holding.enter_context(source.held(target, say)) for target in dict.fromkeys(targets)]
        for release in releases:
            _describe(release)
        total = f"{len(targets) * TURNS} turns, about {len(targets) * TOKENS} tokens of prompts and replies"
        say(f"Total: {total}. Each engine adds its own instructions, often thousands of tokens.")
        if not yes and not _answered_yes():
            raise UsageError("nothing was run", "answer yes, or pass --yes")
        yield releases


def _answered_yes() -> bool:
    try:
        return click.confirm("Run this with your own account?", err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        return False  # standard input has ended


def _describe(release: Release) -> None:
    if release.executable is None:
        raise NotInstalledError(f"{release.name} has no executable", "pass one as ENGINE=/path/to/executable")
    say(f"{release.name} ({release.executable}) will be run {TURNS} times, in your environment:")
    for argv, prompt in zip(planned(release.contract), (FIRST.format(word="<word>"), AGAIN), strict=True):
        stdin = "" if prompt in argv else f"  with the prompt {prompt!r} on standard input"
        say(f"  $ {command_line(argv, LONGEST)}{stdin}")
    say("  in an empty directory; the session stays in your own store")
