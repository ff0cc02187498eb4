"""The subcommand `probe`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from turngate.cli import given_as
from turngate.contract.clauses import Level
from turngate_probes.cli.shared_options import (
    check_unused,
    clause_option,
    fail_on_options,
    folder,
    jobs_option,
    output_options,
    target_arguments,
)
from turngate_probes.report import FORMATS

if TYPE_CHECKING:
    from rich.console import Console

    from turngate.contract.verdict import FailOn
    from turngate_probes.journal.events import SkippedEngine
    from turngate_probes.releases.target import Target
    from turngate_probes.report.publish import Printer
    from turngate_probes.report.reports import ReleaseReport


class ProbeOptions(Struct, frozen=True, kw_only=True):
    """What `probe` was given; the options are described on its help page."""

    targets: "list[Target]"
    level: Level
    jobs: int | None
    output: "Printer"
    fail_on: "FailOn"
    keep: Path | None
    clauses: tuple[str, ...]
    pinned: bool
    resume: bool
    my_settings: bool
    last_failed: bool
    yes: bool
    server: tuple[str, ...]


@click.command()
@target_arguments(required=False)
@click.option(
    "--level",
    type=click.Choice(["static", "hermetic", "long", "server", "live"]),
    default="hermetic",
    show_default=True,
    help="static: only version and help text; hermetic: the real CLI against a stub model backend; "
    "long: the same, with long sessions; "
    "server: only turns through the reference server; "
    "live: two turns with your own account, if you agree.",
)
@jobs_option()
@output_options(*FORMATS)
@fail_on_options
@click.option(
    "--keep", type=folder(), metavar="DIR", help="Keep all sandboxes and the journal in DIR, which must hold no others."
)
@clause_option
@click.option(
    "--pinned", is_flag=True, help="Test the pinned releases, which are installed first, and not what is on PATH."
)
@click.option(
    "--resume",
    is_flag=True,
    help="Test only whether sessions can be resumed: two turns, with those of your settings that decide what the "
    "engine prints and stores.",
)
@click.option(
    "--my-settings",
    is_flag=True,
    help="Test with those of your own settings that the contract lists, and say which clauses they change. "
    "Credentials, sessions and history stay out. Works at every level except live, which has them anyway.",
)
@click.option(
    "--last-failed",
    is_flag=True,
    help="Test again what failed or could not be tested in the newest probe, at its level and with its release.",
)
@click.option(
    "--server",
    metavar="COMMAND",
    default="",
    callback=lambda _context, _option, command: _words(command),
    help="Test this server and not the reference server, at the level server. COMMAND runs in a new directory, without "
    "a shell; the files that it names are those here. docs/build-an-orchestrator.md says what the server must offer.",
)
@click.option("--yes", is_flag=True, help="Agree to a live probe without being asked.")
@given_as(ProbeOptions)
def probe(options: ProbeOptions) -> int:
    """Test real engines against their contracts, without an account or network access.

    TARGET is ENGINE (the one on PATH, else the pinned release), ENGINE@VERSION (installed from npm or PyPI
    into a cache, without running install scripts) or ENGINE=/path/to/executable. Without a target it probes the
    engines on PATH and installs nothing. With --pinned it installs and probes the pinned releases, by default of
    every engine except additional ones (see turngate engines list).

    \b
    turngate probe
    turngate probe --pinned
    turngate probe codex@0.169.0 --report report.json --report report.html
    turngate probe gemini=./node_modules/.bin/gemini --strict
    turngate probe claude --output stream-json
    turngate probe codex --resume
    turngate probe codex --my-settings
    turngate probe --last-failed
    turngate probe --level server codex gemini opencode
    turngate probe --level server --server "python app.py" codex
    turngate probe --level live codex

    Exit codes: 0 no release fails; 1 a release is broken, or fails by --fail-on; 2 something
    could not be tested; 130 interrupted.
    """
    import os
    from contextlib import ExitStack, closing

    from msgspec.structs import replace

    from turngate.process.sessions import adopting_orphans
    from turngate_probes.cli.live import CLAUSES, consented, steps
    from turngate_probes.harness.interrupt import Interrupt, interrupting
    from turngate_probes.harness.runner import CaseRunner
    from turngate_probes.journal.journal import Journal, read
    from turngate_probes.probe import Probe
    from turngate_probes.probe_settings import ProbeSettings, default_jobs, journal_path, sandboxes_path
    from turngate_probes.releases.selection import known_clauses
    from turngate_probes.releases.source import Release, of_pin
    from turngate_probes.report.build import build
    from turngate_probes.report.progress import live
    from turngate_probes.report.publish import publish
    from turngate_probes.report.release_view import view

    if options.last_failed:
        options = _last_failed(options)
    _check(options)
    is_live, account = options.level == "live", None
    only = CLAUSES if is_live else known_clauses(options.clauses, options.level)
    settings = ProbeSettings(
        options.level,
        options.jobs or default_jobs(),
        sandboxes_path(options.keep),
        options.keep is not None,
        options.fail_on,
        only,
        resume=options.resume,
        my_settings=options.my_settings,
        server=options.server,
    )
    asked: list[Target] = options.targets
    skipped: tuple[SkippedEngine, ...] = ()
    if not asked:
        asked, skipped = _available(options.output.console, pinned=options.pinned)
    if options.pinned:
        asked = [of_pin(target) for target in asked]
    subjects: Sequence[Target | Release] = asked
    with ExitStack() as stack:
        stack.enter_context(adopting_orphans())
        if is_live:
            # a signal during the question ends the command too
            subjects = stack.enter_context(consented(asked, yes=options.yes))
            settings, account = replace(settings, jobs=1, more=(steps(),)), dict(os.environ)
        runner = CaseRunner.of(settings.sandboxes, settings.jobs, Interrupt(), keep=settings.keep, account=account)
        runner = replace(runner, server=options.server)
        path = journal_path(options.keep)
        listener = stack.enter_context(live(options.output.progress, runner.interrupt))
        journal = stack.enter_context(closing(Journal(path, [listener])))
        stack.enter_context(interrupting(runner.interrupt.set))
        Probe(settings, journal, runner).run(subjects, skipped)
    return publish(view(build(read(path))), options.output, path)


def _last_failed(options: ProbeOptions) -> ProbeOptions:
    """Return what repeats the failures of the newest probe in the cache that has ended; UsageError if it has none."""
    from msgspec import UNSET
    from msgspec.structs import replace

    from turngate import UsageError
    from turngate_probes.journal.events import ProbeStarted, ReleasePlanned
    from turngate_probes.journal.journal import is_growing, read
    from turngate_probes.probe_settings import journals
    from turngate_probes.releases.target import Target
    from turngate_probes.report.build import build

    if options.targets or options.clauses or options.pinned or options.resume:
        raise click.UsageError("--last-failed can't be combined with TARGET, --clause, --pinned or --resume")
    ended = ([*read(path)] for path in journals() if not is_growing(path))
    events = next((events for events in ended if any(isinstance(event, ReleasePlanned) for event in events)), None)
    if events is None:
        raise UsageError("no probe has run here yet", "name what to test: turngate probe codex")
    report, started = build(events), next(event for event in events if isinstance(event, ProbeStarted))
    failing = [_open(release) for release in report.releases]
    again = [release for release, ids in zip(report.releases, failing, strict=True) if ids or release.failed]
    if not again:
        raise UsageError(f"nothing failed in the newest probe, of {report.started_at}", "name what to test")
    targets = [
        Target(
            release.engine,
            None if release.source == "path" else release.version,
            Path(release.executable) if release.source == "path" and release.executable else None,
            release.output or "",
        )
        for release in again
    ]
    clauses = set[str]().union(*failing)
    if any(release.failed for release in again):
        clauses = {*report.clauses}  # all that were asked
    if started.resume or report.level == "live":
        clauses = set()  # these have clauses of their own
    listed = ", ".join(sorted(clauses)) or "every clause"
    options.output.progress.print(f"again: {listed} of {', '.join(map(str, targets))}", soft_wrap=True)
    had_settings = not started.resume and any(release.settings is not UNSET for release in again)
    return replace(
        options,
        targets=targets,
        level=report.level,
        clauses=tuple(sorted(clauses)),
        resume=started.resume,
        my_settings=options.my_settings or had_settings,
        server=options.server or started.server,
    )


def _open(release: "ReleaseReport") -> set[str]:
    """Return the clauses of a release that failed or could not be tested."""
    from turngate.contract.clauses import PASSING, Result, Severity

    return {
        clause.id
        for clause in release.clauses
        if clause.result is Result.FAIL
        or clause.reason in PASSING
        or (clause.reason is not None and clause.severity is Severity.BREAKING)
    }


def _check(options: ProbeOptions) -> None:
    """click.UsageError if options contradict each other, or --keep names the folder of another probe."""
    from turngate_probes.probe_settings import resumed_clauses

    if options.level == "live" and (options.clauses or options.keep or not options.targets):
        raise click.UsageError("--level live needs a target, and can't be combined with --clause or --keep")
    if options.server and options.level != "server":
        raise click.UsageError("--server needs --level server")
    if options.server and (other := sorted({*options.clauses} - {*resumed_clauses()})):
        raise click.BadParameter(f"no server is asked for {', '.join(other)}", param_hint="--clause")
    if options.resume and (options.clauses or options.level != "hermetic"):
        raise click.UsageError("--resume can't be combined with --level or --clause")
    if options.my_settings and (options.resume or options.level == "live"):
        raise click.UsageError("--my-settings can't be combined with --resume or --level live: they have them")
    if options.level in ("server", "live") and any(target.output for target in options.targets):
        raise click.UsageError("--output can't be combined with --level server or live")
    check_unused(options.keep)


def _words(command: str) -> tuple[str, ...]:
    """Split a command into words, as a shell does, with files by their whole path; click.BadParameter: an open quote.

    The first word is a program on PATH unless it has a slash.
    """
    import shlex

    try:
        words = shlex.split(command)
    except ValueError as error:
        raise click.BadParameter(f"{command!r}: {error}") from error
    return tuple(_whole_path(word) if at or "/" in word else word for at, word in enumerate(words))


def _whole_path(word: str) -> str:
    """Return the whole path of a file; any other word as it is."""
    from contextlib import suppress

    with suppress(OSError):  # it is too long for a path
        if Path(word).is_file():
            return str(Path(word).absolute())
    return word


def _available(console: "Console", *, pinned: bool) -> "tuple[list[Target], tuple[SkippedEngine, ...]]":
    """Return the engines that are installed, or the pinned ones, and print and return the others.

    NotInstalledError: there are none.
    """
    from turngate import NotInstalledError, engine_names
    from turngate_probes.journal.events import SkippedEngine
    from turngate_probes.releases.source import ABSENT, TEST_ONE, not_installed, not_pinned
    from turngate_probes.releases.target import Target

    obstacles = {engine: (not_pinned if pinned else not_installed)(engine) for engine in engine_names()}
    if all(obstacles.values()):
        raise NotInstalledError(f"no engine is on PATH: {', '.join(obstacles)}", TEST_ONE)
    skipped = tuple(SkippedEngine(engine, why) for engine, why in obstacles.items() if why)
    absent = [left_out.engine for left_out in skipped if left_out.why.endswith(ABSENT)]
    if absent:
        console.print(f"not on PATH, so skipped: {', '.join(absent)}", soft_wrap=True)
    for left_out in skipped:
        if left_out.engine not in absent:
            console.print(f"skipped {left_out.engine}: {left_out.why}", soft_wrap=True)
    return [Target(engine) for engine, why in obstacles.items() if not why], skipped
