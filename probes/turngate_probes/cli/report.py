"""The subcommand `report`, and the option `--report` of others, checked before anything runs."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

FORMATS = ".json, .xml (JUnit), .sarif, .md or .html"


def report_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option to a command, which gets the paths as `reports`."""
    return click.option(
        "--report", "reports", multiple=True, metavar="FILE", callback=_checked,
        type=click.Path(dir_okay=False, path_type=Path),
        help=f"Write a report to FILE, by its suffix {FORMATS}; may be repeated.",
    )(command)  # fmt: skip


def fail_on_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--fail-on` and `--strict` to a command, which gets the former as `fail_on`."""

    @click.option(
        "--fail-on", type=click.Choice(["broken", "degraded", "caveat"]), default="broken", show_default=True,
        help="Exit with 1 for this problem or a worse one. degraded includes declared deviations that no longer "
        "occur; caveat includes every known caveat.",
    )  # fmt: skip
    @click.option("--strict", is_flag=True, help="Short for --fail-on degraded.")
    @wraps(command)
    def with_fail_on(*arguments: Any, fail_on: str, strict: bool, **more: Any) -> Any:
        from turngate.contract.verdict import FailOn  # noqa: PLC0415 - so that --help is quick

        mildest = FailOn.DEGRADED if strict and fail_on == "broken" else FailOn(fail_on)
        return command(*arguments, fail_on=mildest, **more)

    return with_fail_on


def _checked(_ctx: click.Context, _option: click.Parameter, paths: tuple[Path, ...]) -> tuple[Path, ...]:
    if paths:
        from turngate_probes.report.publish import wrong_suffix  # noqa: PLC0415 - so that --help is quick

        for wrong in filter(None, map(wrong_suffix, paths)):
            raise click.BadParameter(wrong)
    return paths


@click.command()
@click.argument(
    "sources", nargs=-1, required=True, metavar="FROM...", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--json", "json_to", metavar="FILE", help="Write the JSON report; `-` is standard output.")
@report_option
def report(sources: tuple[Path, ...], json_to: str | None, reports: tuple[Path, ...]) -> int:
    """Render saved reports in other formats, without running anything.

    Several FROM are joined, as long as they were asked the same and no release stands in two of them; the report of
    a gate stands alone.

    \b
    turngate report report.json --report report.html --report report.xml
    turngate report codex.json gemini.json opencode.json --report all.html
    turngate report gate.json --report gate.html

    Exit codes are those of the probes or the gate; what is no report ends with 2.
    """
    from turngate.errors import EnvironmentFailed  # noqa: PLC0415 - imported when asked for, so that --help is quick
    from turngate_probes.gate.report import load_gate  # noqa: PLC0415
    from turngate_probes.report.load import joined, load_report  # noqa: PLC0415
    from turngate_probes.report.publish import console_for, publish  # noqa: PLC0415

    gates = [gate for gate in map(load_gate, sources) if gate]
    if gates and len(sources) > 1:
        raise EnvironmentFailed("the report of a gate can't be joined with others", "give it alone")
    found = gates[0] if gates else joined([load_report(source) for source in sources], sources)
    return publish(found, console_for(json_to), json_to, reports, sources[0])
