"""The subcommand `doctor`: what is known of the engines on PATH and of those that a project pins."""

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from turngate.files import command
from turngate.sanitize import bounded, visible

if TYPE_CHECKING:
    from turngate_probes.doctor import DoctorReport, FoundAt, FoundRelease, NearRelease

INTERRUPTED = 130
_WIDTH = 100
_LONGEST = 300
_COLOURS = {"compatible": "green", "broken": "red"}
_NOTHING = "No engine is on PATH, and no file in this folder or below it names one. turngate looked for"
_NEXT = "`turngate doctor --help` lists the files that it reads. `turngate probe codex` tests a release of Codex."


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(*, as_json: bool) -> int:
    """Say which engines this machine and this project use, and whether these releases are safe.

    Looks for engines on PATH, and for the releases that the files in the working directory and below it pin:
    package.json, requirements and pyproject.toml, their lock files, Dockerfiles, workflows, dev containers, scripts,
    Nix, and files of mise and asdf. For each release it prints where it was found, its verdict, what your orchestrator
    must do about it, and the newest release that is safe. A place that names an engine without a release, such as a
    range, is listed as not pinned. The verdicts were measured before this turngate was released, so it needs no network
    and tests nothing.

    \b
    turngate doctor
    turngate doctor --json

    It reads the release from the package beside an engine, and runs others only with --version. It never runs a program
    of the project, one from a relative folder on PATH, or what the project's files make a version manager run: of the
    shims of mise, asdf, volta, nodenv and pyenv it reads what they would run here.

    Exit codes: 0 every release found is compatible; 1 one is broken or degraded; 2 there is no verdict on one, a place
    pins none, a file could not be searched, or none was found; 130 interrupted.
    """
    import json
    import os
    import signal
    from pathlib import Path

    from msgspec import to_builtins

    from turngate import MachineError, Stop
    from turngate.process.sessions import adopting_orphans
    from turngate.process.signals import handling_signals
    from turngate_probes.doctor import examine

    try:
        folder = Path.cwd()
    except OSError as gone:
        raise MachineError(f"the working directory can't be used: {gone.strerror}", "change to another one") from gone
    stop = Stop()
    with adopting_orphans(), handling_signals((signal.SIGINT, signal.SIGTERM), lambda _number: stop.set()):
        report = examine(folder, stop)
    if stop.is_set():
        return INTERRUPTED
    if as_json:
        click.echo(json.dumps(to_builtins(report), indent=2))
    else:
        click.echo("\n".join(_lines(report)), color=False if os.environ.get("NO_COLOR") else None)
    return report.exit_code


def _lines(report: "DoctorReport") -> Iterator[str]:
    rows = [
        (release.engine, visible(release.version or ""), _word(release), _scope(release), release.profile or "")
        for release in report.releases
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for release, row in zip(report.releases, rows, strict=True):
        engine, version, word, clauses, profile = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        word = click.style(word, fg=_COLOURS.get(row[2], "yellow"), bold=row[2] == "broken" or None)
        places = ", ".join(map(_place, release.found))
        yield f"{click.style(engine, bold=True)}  {version}  {word}  {clauses}  {profile}  {places}"
        yield from _about(release)
    yield from [""] if rows else _nothing()
    for missing in report.not_searched:
        yield from _wrapped(f"not searched: {missing}", "")
    if rows and report.not_run_from:
        yield f"No program in {visible(report.not_run_from)} was run."
    yield f"exit code {report.exit_code}: {_outcome(report)}"


def _nothing() -> Iterator[str]:
    """Say what it looked for, and what to do next."""
    from turngate import engine_names

    yield from _wrapped(f"{_NOTHING} {', '.join(engine_names())}.", "")
    yield from _wrapped(_NEXT, "")


def _place(at: "FoundAt") -> str:
    return f"{visible(at.place)} (by {visible(at.chosen_by)})" if at.chosen_by else visible(at.place)


def _word(release: "FoundRelease") -> str:
    return release.verdict or release.knowledge.replace("_", " ")


def _scope(release: "FoundRelease | NearRelease") -> str:
    from turngate.contract.load import catalogue

    return catalogue().scope(release.clause_set, release.level) if release.clause_set and release.level else ""


def _about(release: "FoundRelease") -> Iterator[str]:
    """Say what is known of a release, and what to do."""
    from turngate.contract.load import catalogue
    from turngate.history_text import only_guarded

    yield from _wrapped(_why(release))
    for failed in release.failures:
        observed = f": {bounded(failed.detail, _LONGEST)}" if failed.detail else ""
        yield from _wrapped(f"{failed.clause} fails{observed}")
    if release.actions:
        yield "  What your orchestrator must do" + ("" if release.verdict else ", by the contract")
    for action in release.actions:
        yield from _wrapped(f"{action.clause}: {action.action}", "    ")
    yield from _wrapped(only_guarded([(release.engine, release.version, release.verdict)]))
    if release.newer_safe and release.newer_safe_clause_set and release.newer_safe_level:
        by = catalogue().scope(release.newer_safe_clause_set, release.newer_safe_level)
        yield f"  newest safe release: {release.newer_safe} ({by})"
    if release.settings:
        yield from _wrapped(f"you have settings that may change this: {'; '.join(release.settings)}")
        yield f"  test it with them: {command('probe', release.engine, '--my-settings')}"
    if release.command:
        yield f"  {_invitation(release)}: {release.command}"


def _invitation(release: "FoundRelease") -> str:
    """Introduce the command that tests a release."""
    from turngate.contract.clauses import NEWEST_SET

    if release.verdict:
        return f"test it by clause set {NEWEST_SET}"
    if release.knowledge == "not_run":
        return "if you trust it, test it"
    return "try it here" if release.knowledge == "untested" and release.detail else "test it"


def _why(release: "FoundRelease") -> str:
    """Say why there is no verdict, or why it is bad."""
    if release.knowledge == "no_history":
        return f"turngate has no history of {release.title}"
    if release.knowledge == "no_such_release":
        return f"{release.title} has no release of this version ({release.detail})"
    if release.knowledge in ("unknown", "untested"):
        near = " and ".join(f"{each.version} ({each.verdict}, {_scope(each)})" for each in release.nearest)
        why = f": {release.detail}" if release.detail else ""
        lacks = "doesn't know this release" if release.knowledge == "unknown" else "has no verdict on this release"
        return f"turngate {lacks}{why}{'; the nearest that it tested: ' if near else ''}{near}"
    # the clauses that fail are listed below
    return "" if release.failures else release.detail


def _wrapped(text: str, indent: str = "  ") -> list[str]:
    return textwrap.wrap(
        visible(text),
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _outcome(report: "DoctorReport") -> str:
    """Say why the command exits as it does."""
    if report.exit_code == 1:
        bad = [each for each in report.releases if each.verdict in ("broken", "degraded")]
        return ", ".join(f"{visible(each.name)} is {each.verdict}" for each in bad)
    if report.exit_code == 0:
        return "each release that was found is compatible by its clause set"
    loose = [each for each in report.releases if each.knowledge == "not_pinned"]
    open_ = [each for each in report.releases if not each.verdict and each not in loose]
    none = ", ".join(dict.fromkeys(visible(each.name) for each in open_))
    why = [f"no verdict on {none}"] if none else []
    why += [f"{visible(each.found[0].place)} pins no release of {each.engine}" for each in loose]
    why += ["not all was searched"] if report.not_searched else []
    return "; ".join(why) or "nothing was found"
