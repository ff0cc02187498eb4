"""The subcommand `conform`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import Struct
from msgspec.structs import replace

from turngate.cli import given_as
from turngate_probes.cli.shared_options import check_unused, file, folder, output_options, say, to_simulate
from turngate_probes.report import ORCHESTRATOR_FORMATS

if TYPE_CHECKING:
    from turngate import EngineContract
    from turngate_probes.conform.catalogue import Scenario
    from turngate_probes.harness.interrupt import Interrupt
    from turngate_probes.releases.source import Release
    from turngate_probes.report.publish import Printer


class ConformOptions(Struct, frozen=True, kw_only=True):
    """What `conform` was given; the options are described on its help page."""

    command: tuple[str, ...]
    engines: tuple[str, ...]
    chosen: "tuple[Scenario, ...]"
    jobs: int
    turns: int
    baseline: Path | None
    keep: Path | None
    output: "Printer"
    lists: bool
    show: bool
    real: bool
    observe: bool
    interactive: bool
    autonomous: bool
    git: bool
    strict: bool


def _scenarios(_ctx: click.Context, _option: click.Parameter, names: tuple[str, ...]) -> "tuple[Scenario, ...]":
    from turngate.errors import did_you_mean
    from turngate_probes.conform.catalogue import scenarios

    for name in names:
        if name not in scenarios():
            hint = did_you_mean(name, scenarios(), "see turngate conform --list")
            raise click.BadParameter(f"unknown scenario {name!r}; {hint}")
    return tuple(scenarios()[name] for name in dict.fromkeys(names))


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--engine",
    "engines",
    multiple=True,
    metavar="ENGINE[@VERSION]",
    help="Simulate this release (repeatable).  [default: codex, the pinned release]",
)
@click.option(
    "--scenario",
    "chosen",
    multiple=True,
    metavar="ID",
    callback=_scenarios,
    help="Run only this scenario (repeatable).  [default: all]",
)
@click.option("--list", "lists", is_flag=True, help="List the rules and the scenarios.")
@click.option("--show", is_flag=True, help="Explain the chosen scenarios, and what the engine does in them.")
@click.option(
    "--real",
    is_flag=True,
    help="Run the real CLIs against a stub model, without the scenarios that need a misbehaving engine. "
    "ENGINE may then be ENGINE=/path, as in `turngate probe`.",
)
@click.option(
    "--observe",
    is_flag=True,
    help="Run COMMAND once, as it is, and judge only the rules that hold for every call. For test suites.",
)
@click.option("--interactive", is_flag=True, help="With --observe: a user is in the loop: no call may skip approval.")
@click.option(
    "--turns",
    type=click.IntRange(1, 3),
    default=3,
    show_default=True,
    help="How many turns your driver can have. With 1, for tools that keep no conversation, the first turn misbehaves.",
)
@click.option("--autonomous", is_flag=True, help="No user is in the loop: the engine may act without asking.")
@click.option("--git", is_flag=True, help="Make each workspace a git repository. Otherwise, it is none.")
@click.option("--jobs", type=click.IntRange(1, 64), default=1, show_default=True, help="Scenarios to run in parallel.")
@click.option("--baseline", type=file(exists=True), metavar="FILE", help="Expected breaches, in YAML.")
@click.option("--strict", is_flag=True, help="Fail for rules that aren't essential and for stale entries, too.")
@click.option("--keep", type=folder(), metavar="DIR", help="Keep every home, workspace and record of calls in DIR.")
@output_options(*ORCHESTRATOR_FORMATS)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
@given_as(ConformOptions)
def conform(options: ConformOptions) -> int:
    """Test an orchestrator: does it notice when an engine misbehaves?

    COMMAND is your driver, a short program in any language. turngate runs it once per
    scenario, with simulated engines first on PATH. It starts a conversation with the prompt, sends
    the reply when the engine's turn has ended, prints the final answer, and exits with 0, or with
    another code if the conversation failed.

    \b
    TURNGATE_PROMPT_FILE     a file with the prompt; so TURNGATE_REPLY_FILE
    TURNGATE_PROMPT          the prompt itself, unless it is long; so TURNGATE_REPLY
    TURNGATE_REPLY_2         in some scenarios: a second reply
    TURNGATE_WORKSPACE       the directory of the conversation
    TURNGATE_ENGINE          the engine; TURNGATE_ENGINE_CODEX is the path of its executable
    TURNGATE_DEADLINE_SEC    when a turn must have ended

    \b
    turngate conform -- python driver.py
    turngate conform --engine codex@0.169.0 --engine gemini --jobs 4 -- node driver.mjs
    turngate conform --scenario fresh-session --show
    turngate conform --observe --interactive -- pytest tests/

    Exit codes: 0 it conforms; 1 it breaks a rule; 2 something could not be tested;
    130 interrupted; with --observe, the exit code of COMMAND if it fails.
    """
    from turngate_probes.conform import catalogue

    if (options.lists or options.show) and options.output.as_json:
        raise click.UsageError("--list and --show print text; leave out --json")
    if options.lists or options.show:
        click.echo(catalogue.listed() if options.lists else catalogue.shown(options.chosen), nl=False)
        return 0
    if not options.command:
        raise click.UsageError("missing COMMAND: turngate conform -- COMMAND...")
    if options.interactive and not options.observe:
        raise click.UsageError("--interactive needs --observe; in the scenarios, a user is in the loop")
    if options.observe and (options.chosen or options.baseline or options.real or options.autonomous or options.git):
        raise click.UsageError("--observe can't be combined with --scenario, --baseline, --real, --autonomous or --git")
    check_unused(options.keep)
    import tempfile
    from contextlib import ExitStack

    from turngate.process.sessions import adopting_orphans
    from turngate_probes.conform.catalogue import scenarios
    from turngate_probes.conform.conform_report import expected_breaches
    from turngate_probes.conform.conform_view import ConformProgress, view
    from turngate_probes.conform.observe import observed
    from turngate_probes.conform.session import ConformSession
    from turngate_probes.harness.interrupt import Interrupt, interrupting
    from turngate_probes.report.progress import heartbeats
    from turngate_probes.report.publish import publish

    with ExitStack() as stack:
        root = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="turngate-conform-")))
        interrupt = Interrupt()
        stack.enter_context(adopting_orphans())
        stack.enter_context(interrupting(interrupt.set))
        releases = (
            [stack.enter_context(_release(one, interrupt)) for one in options.engines or ("codex",)]
            if options.real
            else []
        )
        asked = () if options.real else tuple(map(_contract, options.engines or ("codex",)))
        contracts = tuple(one.contract for one in releases) or tuple(contract for contract, _ in asked)
        notes = tuple(note for _, note in asked if note)
        for note in notes:
            say(f"Warning: {note}")
        if options.observe:
            report = observed(
                options.command, contracts, root, interrupt, interactive=options.interactive, strict=options.strict
            )
            progress = ConformProgress(options.output, len(report.results))
            for row in report.results:
                progress(row)
        else:
            expected = expected_breaches(options.baseline) if options.baseline else ()
            played = options.chosen or tuple(scenarios().values())
            progress = ConformProgress(options.output, len(contracts) * len(played))
            executables = {one.engine: one.executable for one in releases if one.executable}
            progress.begin(len(played), [f"{one.engine} {one.version}" for one in contracts], options.jobs)
            session = ConformSession(
                options.command,
                contracts,
                played,
                root,
                options.jobs,
                expected,
                options.strict,
                executables,
                options.turns,
                options.autonomous,
                options.git,
            )
            with heartbeats(progress.beat, interrupt):
                report = session.run(interrupt, progress)
    return publish(view(replace(report, notes=notes)), options.output)


@contextmanager
def _release(target: str, interrupt: "Interrupt") -> "Iterator[Release]":
    """Provide a release with its executable, installed if necessary; NotInstalledError if there is none."""
    from turngate import NotInstalledError
    from turngate_probes.releases.source import ReleaseSource
    from turngate_probes.releases.target import parse_target

    with interrupt.scope() as stop, ReleaseSource().held(parse_target(target), say, stop) as release:
        if release.executable is None:
            raise NotInstalledError(f"{release.name} has no executable", "install it, or leave out --real")
        yield release


def _contract(target: str) -> "tuple[EngineContract, str]":
    """Return the contract of a release to simulate, and what to say if turngate doesn't know the release."""
    from turngate import UsageError
    from turngate_probes.releases.target import parse_target

    asked = parse_target(target)
    if asked.path:
        raise UsageError(f"{target} names an executable", "name a release, or use --real")
    contract, warning = to_simulate(asked)
    if contract.version is None:
        hint = f"name one, such as --engine {asked.engine}@1.0.0"
        raise UsageError(f"no release of {asked.engine} is pinned or recorded", hint)
    return contract, warning
