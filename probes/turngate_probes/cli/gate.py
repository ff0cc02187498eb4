"""The subcommand `gate`: can you upgrade to a release?"""

from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from turngate.cli import UNANSWERED, print_error, use_contracts
from turngate.files import overlay
from turngate.sanitize import visible
from turngate_probes.cli.shared_options import (
    clause_option,
    fail_on_options,
    file,
    folder,
    many_releases,
    output_options,
    targets,
)
from turngate_probes.report import FORMATS

if TYPE_CHECKING:
    from turngate_probes.gate.collect import ReleaseQuestion
    from turngate_probes.gate.settings import Settings
    from turngate_probes.report.publish import Printer

_PARAMETERS = {"fail-on": "fail_on", "baseline": "baseline", "reports": "reports", "contracts": "contracts"}
UNUSED = "has no effect, because its engine is not tested: add it to `engines`"
_LEAST_BAD_FIRST = (0, 2, 1, 130, 3)


class Upgrade(NamedTuple):
    """A newer release to test and the one in use (None: the pinned one), each with the place that names it."""

    new: str
    new_place: str
    old: str | None
    old_place: str


def _use_settings(ctx: click.Context, _option: click.Parameter, show: bool) -> bool:
    """Make the settings the defaults of the options that are parsed later."""
    if not ctx.resilient_parsing:  # a shell completes a word
        from turngate_probes.gate.settings import read_settings

        ctx.obj = settings = read_settings(Path.cwd())
        by_caller = {"contracts"} if overlay() else set[str]()
        keys = _PARAMETERS.keys() & settings.values.keys() - by_caller
        ctx.default_map = {_PARAMETERS[key]: settings.values[key] for key in keys}
    return show


def _only(_ctx: click.Context, _argument: click.Parameter, named: tuple[str, ...]) -> str | None:
    """Return the release, if any; click.UsageError if there are several."""
    if len(named) > 1:
        example = "turngate gate codex@0.169.0 --from codex@0.147.0"
        raise click.UsageError(f"a gate is for one release, so the one in use needs --from, as in: {example}")
    return named[0] if named else None


@click.command()
@click.argument("new", metavar="[ENGINE[@NEW]]", nargs=-1, callback=_only, shell_complete=targets)
@click.option(
    "--from",
    "old",
    metavar="ENGINE@OLD",
    shell_complete=targets,
    help="The release in use now.  [default: the one that the project names or pins, else turngate's pinned release]",
)
@click.option(
    "--baseline",
    type=file(exists=True),
    metavar="FILE",
    help="Expected failures (YAML). The gate fails if one of them passes, until you remove it.",
)
@clause_option
@click.option("--long", is_flag=True, help="Test long sessions, too, which takes a few minutes more.")
@click.option(
    "--contracts",
    type=folder(),
    callback=use_contracts,
    expose_value=False,
    hidden=True,  # it stands before the command, and here only for the key of turngate.toml
)
@output_options(*FORMATS)
@fail_on_options
@many_releases
@click.option(
    "--show-settings",
    is_flag=True,
    is_eager=True,
    callback=_use_settings,
    help="Print what is in force and where it comes from, and test nothing.",
)
@click.pass_obj
def gate(
    settings: "Settings", /, new: str | None, old: str | None, output: "Printer", *, show_settings: bool, **asked: Any
) -> int:
    """Check whether you can upgrade to a release, and what you must change first.

    Probes both releases, resumes each release's sessions in the other in a shared HOME, and compares clauses, help
    pages, events and the tools offered to the model. Without NEW it is the newest release. NEW can be an executable:
    codex=/path/to/codex.

    Without an argument it tests each engine that the settings in turngate.toml or pyproject.toml name, else the newest
    release of each engine that the files here pin. Options override settings.

    \b
    turngate gate
    turngate gate codex
    turngate gate codex@0.169.0 --from codex@0.147.0 --report gate.md
    turngate gate codex --long

    --fail-on degraded also fails on other clauses that fail in NEW, on deviations that no longer occur, and on
    differences that make NEW worse, except new caveats and changed claims of the contract. --fail-on caveat also fails
    on every known caveat of NEW.

    Exit codes: 0 green (you can upgrade; the report says whether your orchestrator must change first); 1 red
    (something fails that the baseline does not excuse); 2 not everything could be tested; 130 interrupted.
    """
    from turngate import UsageError
    from turngate_probes.gate import decision
    from turngate_probes.releases.target import parse_target

    upgrades = _upgrades(settings, new, old)
    unused = [] if new else settings.unused([parse_target(upgrade.new).engine for upgrade in upgrades])
    if show_settings:
        if output.as_json:
            raise UsageError("--show-settings prints no JSON", "leave --json out")
        _show(upgrades, unused, settings, {**asked, "reports": output.reports, "contracts": overlay()})
        return 0
    if not upgrades:
        raise settings.nothing_named()
    if len(upgrades) > 1 and output.as_json:
        raise UsageError("--json is for one engine", f"name it: turngate gate {upgrades[0].new}")
    questions = [decision.question(upgrade.new, upgrade.old, **asked) for upgrade in upgrades]
    for place in dict.fromkeys(settings.places.values()):
        output.progress.print(f"settings: {visible(place)}", soft_wrap=True)
    for release in unused:
        output.progress.print(f"settings: in-use {visible(release)} {UNUSED}", soft_wrap=True)
    return _answer_all(questions, output)


def _answer_all(questions: "Sequence[ReleaseQuestion]", output: "Printer") -> int:
    """Answer and publish one question after the other; return the worst exit code.

    TurngateError if the only one can't be answered or published. One of several that can't be counts as unanswered.
    """
    from turngate import TurngateError
    from turngate.process.sessions import adopting_orphans
    from turngate_probes.gate import decision
    from turngate_probes.harness.interrupt import interruptible, interrupting
    from turngate_probes.report.publish import publish, sum_up
    from turngate_probes.report.release_view import view

    views, failed = [], dict[str, TurngateError]()
    for question in questions:
        try:
            with adopting_orphans(), interruptible() as interrupt:
                report = decision.answer(question, output.progress, interrupt)
            with adopting_orphans(), interrupting(interrupt.set):
                views.append(view(report))
                publish(views[-1], output if len(questions) == 1 else _of(question.new.engine, output))
        except TurngateError as error:
            if len(questions) == 1:
                raise
            print_error(error, f"{question.new}: ")
            failed[str(question.new)] = error
        if interrupt.is_set():
            break
    codes = [*(each.exit_code for each in views), *(UNANSWERED for _ in failed)]
    worst = max(codes, key=_LEAST_BAD_FIRST.index)
    if len(questions) > 1:
        sum_up(views, failed, worst, output)
    return worst


def _upgrades(settings: "Settings", new: str | None, old: str | None) -> list[Upgrade]:
    """Return what to test: the release that the caller names, else those of the settings or pins."""
    from turngate import UsageError
    from turngate_probes.releases.target import parse_target

    chosen = [(new, "argument")] if new else settings.upgrades()
    if old and len(chosen) > 1:
        raise UsageError("--from is for one engine", f"name it: turngate gate {chosen[0][0]} --from {old}")
    if old:
        return [Upgrade(*named, old, "--from") for named in chosen]
    in_use = [settings.in_use(parse_target(name).engine) for name, _ in chosen]
    return [
        Upgrade(*named, *(used or (None, "turngate's own pin, perhaps not yours")))
        for named, used in zip(chosen, in_use, strict=True)
    ]


def _show(upgrades: list[Upgrade], unused: list[str], settings: "Settings", values: Mapping[str, Any]) -> None:
    """Print what is in force, and from where."""
    from turngate_probes.gate import decision
    from turngate_probes.releases.pins import pinned_version

    rows = [] if upgrades else [("engine", "none", "neither settings nor a file here names one")]
    for upgrade in upgrades:
        new = decision.asked_for(upgrade.new)
        engine = new.engine
        rows.append(("engine", str(new), upgrade.new_place))
        old = upgrade.old or (f"{engine}@{version}" if (version := pinned_version(engine)) else "none")
        rows.append(("in use", old, upgrade.old_place))
    rows += [("in use", release, f"{settings.places['in-use']} ({UNUSED})") for release in unused]
    for key, parameter in _PARAMETERS.items():
        value = values[parameter]
        text = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value or "")
        rows.append((key, text or "none", _origin(settings, key, parameter)))
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for key, text, place in rows:
        click.echo(visible(f"{key:{widths[0]}}  {text:{widths[1]}}  {place}"))


def _origin(settings: "Settings", key: str, parameter: str) -> str:
    """Say where the value of an option comes from."""
    here = click.get_current_context()
    # --contracts is an option of `turngate`, too
    contexts = [here, *([here.parent] if here.parent else [])]
    names = (parameter, "strict") if parameter == "fail_on" else (parameter,)
    sources = {ctx.get_parameter_source(name) for ctx in contexts for name in names}
    known = {
        ParameterSource.COMMANDLINE: "command line",
        ParameterSource.ENVIRONMENT: "environment",
        ParameterSource.DEFAULT_MAP: settings.places.get(key, ""),
    }
    return next((place for source, place in known.items() if source in sources), "default")


def _of(engine: str, output: "Printer") -> "Printer":
    """Return the output with reports of their own for one of several engines."""
    one = copy(output)
    one.reports = tuple(path.with_stem(f"{path.stem}-{engine}") for path in output.reports)
    return one
