"""Options that several commands share, what a shell completes for them, and messages to the user.

Options are checked before anything runs. Help pages import this, so it imports little.
"""

import os
import re
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

import turngate
from turngate.files import contract_files, default_cache
from turngate.sanitize import visible
from turngate_probes.report import HTML, SARIF

Command = TypeVar("Command", bound=Callable[..., Any])
as_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON; text goes to standard error.")


def engines(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the engines that begin with a text."""
    return [engine for engine in contract_files() if engine.startswith(incomplete)]


def targets(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the engines that begin with a text and, once an engine is written out, its releases in the cache."""
    return [name for name in _targets(incomplete) if name.startswith(incomplete)]


def clauses(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the clauses whose id begins with a text. Their file is searched, because parsing it takes too long."""
    catalogue = Path(turngate.__file__).with_name("clauses.yaml").read_text("utf-8")
    return [name for name in re.findall(r"^  - id: (\S+)$", catalogue, re.MULTILINE) if name.startswith(incomplete)]


def _targets(incomplete: str) -> Iterator[str]:
    for engine in contract_files():
        yield engine
        if incomplete.startswith(engine):
            folder = default_cache() / "engines" / engine
            releases = [path for path in folder.glob("[0-9]*") if path.is_dir()] or [*folder.glob("pypi-*")]
            yield from sorted(f"{engine}@{path.name.removeprefix('pypi-')}" for path in releases)


if TYPE_CHECKING:
    from turngate import EngineContract
    from turngate_probes.releases.target import Target


def say(text: str) -> None:
    """Print a message on stderr, with control characters escaped."""
    click.echo(visible(text, keep="\n\t"), err=True)


def to_simulate(asked: "Target") -> "tuple[EngineContract, str]":
    """Return the contract of a release to simulate, and what to say if turngate doesn't know the release."""
    from turngate import load_contract
    from turngate_probes.releases import recorded_releases
    from turngate_probes.releases.pins import pinned_version

    version = asked.version or pinned_version(asked.engine) or recorded_releases.newest(asked.engine)
    contract = load_contract(asked.engine, version)
    if not asked.version or _is_known(asked.engine, asked.version):
        return contract, ""
    return contract, f"turngate doesn't know {asked}; it is simulated as the newest release before it that is known"


def _is_known(engine: str, version: str) -> bool:
    """Return whether a release was published, as far as turngate knows; true for engines without a history."""
    from turngate import NotFoundError, history

    try:
        return bool(history.load(engine).is_release(version))
    except NotFoundError:
        return True


def folder(**more: bool) -> click.Path:
    """Return the type of an option that names a folder."""
    return click.Path(file_okay=False, path_type=Path, **more)


def check_unused(keep: Path | None) -> None:
    """Refuse the folder of `--keep` if it has folders, which another run has left; click.BadParameter says so."""
    if keep and keep.exists() and any(path.is_dir() for path in keep.iterdir()):
        raise click.BadParameter(f"{keep} holds the files of another run: name a new folder", param_hint="--keep")


def file(**more: bool) -> click.Path:
    """Return the type of an option that names a file."""
    return click.Path(dir_okay=False, path_type=Path, **more)


def jobs_option(default: str = "CPU count + 1") -> Callable[[Command], Command]:
    """Add `--jobs`, whose default is described."""
    counted = f"Parallel engines, without those that only wait.  [default: {default}]"
    return click.option("--jobs", type=click.IntRange(1, 256), help=counted)


def fail_on_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--fail-on` and `--strict` to a command, which gets the former as `fail_on`."""

    @click.option(
        "--fail-on",
        type=click.Choice(["broken", "degraded", "caveat"]),
        default="broken",
        show_default=True,
        help="Exit with 1 for this problem or a worse one. degraded includes declared deviations that no longer "
        "occur; caveat includes every known caveat.",
    )
    @click.option("--strict", is_flag=True, help="Short for --fail-on degraded.")
    @wraps(command)
    def with_fail_on(*arguments: Any, fail_on: str, strict: bool, **more: Any) -> Any:
        from turngate.contract.verdict import FailOn

        source = click.get_current_context().get_parameter_source("fail_on")
        # a project's settings may ask for something else than the command line does
        unasked = fail_on == "broken" or source is not ParameterSource.COMMANDLINE
        mildest = FailOn.DEGRADED if strict and unasked else FailOn(fail_on)
        return command(*arguments, fail_on=mildest, **more)

    return with_fail_on


def output_options(*suffixes: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add `--json`, `--report`, `--open`, `--quiet` and `--verbose` to a command, which gets them as `output`."""
    known = ", ".join(suffixes).replace(".xml", ".xml (JUnit)")

    def checked(_ctx: click.Context, _option: click.Parameter, paths: tuple[Path, ...]) -> tuple[Path, ...]:
        for path in paths:
            if path.suffix.lower() not in suffixes:
                raise click.BadParameter(f"{str(path)!r} has an unknown suffix; use one of {known}")
            _check_writable(path)  # now, since a probe takes minutes
        if len({*paths}) < len(paths):
            raise click.BadParameter("a file is named twice; name each file once")
        return paths

    def with_options(command: Callable[..., Any]) -> Callable[..., Any]:
        @as_json_option
        @click.option(
            "--report",
            "reports",
            multiple=True,
            metavar="FILE",
            callback=checked,
            type=file(),
            help=f"Write a report to FILE, in the format of its suffix: {known} (repeatable).",
        )
        @click.option("-q", "--quiet", "detail", flag_value="quiet", help="Print only verdicts and problems.")
        @click.option(
            "-v",
            "--verbose",
            "detail",
            flag_value="verbose",
            help="Print the evidence of known caveats and the CPU time of each release, too.",
        )
        @wraps(command)
        def with_output(
            *arguments: Any, as_json: bool, reports: tuple[Path, ...], detail: str | None, **more: Any
        ) -> Any:
            from turngate_probes.report.lines import Detail
            from turngate_probes.report.publish import Printer

            is_opened = more.pop("is_opened", False)
            if is_opened and not any(path.suffix.lower() == HTML for path in reports):
                reports += (default_cache() / f"report{HTML}",)
            output = Printer(as_json=as_json, reports=reports, detail=Detail(detail or Detail.NORMAL))
            code = command(*arguments, output=output, **more)
            for page in (path for path in output.written if is_opened and path.suffix.lower() == HTML):
                if click.launch(str(page)) != 0:
                    say(f"no program here opens a page; it is {page}")
            output.end()
            return code

        with_output = _open_option(with_output) if HTML in suffixes else with_output
        return anchor_option(with_output) if SARIF in suffixes else with_output

    return with_options


def _check_writable(path: Path) -> None:
    """click.BadParameter if a file can't be written, or made with the folders that are missing."""
    above = next(parent for parent in path.absolute().parents if parent.exists())
    # of a pipe or a device, the folder may be somebody else's
    if not (os.access(path, os.W_OK) or (above.is_dir() and os.access(above, os.W_OK))):
        raise click.BadParameter(f"{str(path)!r} can't be written; name a file in a folder of yours")


def _anchored(_ctx: click.Context, _option: click.Parameter, path: Path | None) -> None:
    if path:
        from turngate_probes.report.source_locations import use_anchor

        try:
            use_anchor(path)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error


_open_option = click.option(
    "--open",
    "is_opened",
    is_flag=True,
    help="Open the report in your browser: the HTML file of --report, else one in the cache.",
)
anchor_option = click.option(
    "--anchor",
    expose_value=False,
    callback=_anchored,
    metavar="FILE",
    type=file(exists=True),
    help="File in your repository that SARIF results and annotations point at.  [default: the file that pins the "
    "engine's package, else the running workflow]",
)
clause_option = click.option(
    "--clause",
    "clauses",
    multiple=True,
    metavar="ID",
    shell_complete=clauses,
    help="Run only this clause and its prerequisites.",
)


def target_arguments(*, required: bool) -> Callable[[Command], Callable[..., Any]]:
    """Add the argument TARGET and `--output`; a command gets every target in each output mode, as `targets`."""

    def with_arguments(command: Command) -> Callable[..., Any]:
        @click.argument(
            "names",
            nargs=-1,
            required=required,
            metavar="TARGET..." if required else "[TARGET]...",
            shell_complete=targets,
        )
        @click.option(
            "--output",
            "modes",
            multiple=True,
            metavar="MODE",
            help="Output mode, such as stream-json, instead of the engine's default one (repeatable).",
        )
        @wraps(command)
        def with_targets(*arguments: Any, names: tuple[str, ...], modes: tuple[str, ...], **more: Any) -> Any:
            return command(*arguments, targets=_in_modes(names, modes), **more)

        return with_targets

    return with_arguments


def _in_modes(names: tuple[str, ...], modes: tuple[str, ...]) -> "list[Target]":
    """Read the targets; UsageError if one isn't valid, or its engine has no output mode of a name."""
    from msgspec.structs import replace

    from turngate import UsageError
    from turngate.contract import load
    from turngate.errors import did_you_mean
    from turngate_probes.releases.target import parse_target

    asked = [parse_target(name) for name in dict.fromkeys(names)]
    if modes and not asked:
        raise UsageError("--output needs a target", "name the engine")
    for engine in {target.engine for target in asked}:
        whole = load.contract(engine)
        known = [output["name"] for output in whole.document.data.get("outputs", ())]
        known += [claim.data["output"] for claim in whole.document.claims("launch") if "output" in claim.data][:1]
        for mode in modes:
            if mode not in known:
                hint = did_you_mean(mode, known, f"choose one of {', '.join(known)}" if known else "omit --output")
                raise UsageError(f"{engine} has no output mode {mode!r}", hint)
    return [replace(target, output=mode) for target in asked for mode in dict.fromkeys(modes) or ("",)]


def many_releases(command: Command) -> Command:
    """Add the options of commands that probe many releases."""
    for option in (
        click.option(
            "--results",
            type=folder(),
            metavar="DIR",
            help="Folder for saved results, which later runs reuse.  [default: in the cache]",
        ),
        click.option(
            "--cache-limit",
            default="10GB",
            show_default=True,
            metavar="SIZE",
            help="Disk space for installed releases. The least recently used are removed first.",
        ),
        jobs_option("depends on cores and memory"),
        click.option(
            "--registry",
            type=click.Choice(["npm", "pypi"]),
            help="Where releases come from. pypi has only some engines, but needs no Node.  "
            "[default: npm, or pypi if npm doesn't have the engine]",
        ),
    ):
        command = option(command)
    return command
