"""The subcommand `report`: renders again what a probe left, without running anything."""

from pathlib import Path

import click

from turngate_probes.report_option import report_option


@click.command()
@click.argument(
    "sources", nargs=-1, required=True, metavar="FROM...", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--json", "json_to", metavar="FILE", help="Write the JSON report; `-` is standard output.")
@report_option
def report(sources: tuple[Path, ...], json_to: str | None, reports: tuple[Path, ...]) -> int:
    """Render reports again from JSON reports or journals of probes, without running anything.

    Several FROM are joined, as long as they were asked the same and no release stands in two of them.

    \b
    turngate report report.json --report report.html --report report.xml
    turngate report codex.json gemini.json opencode.json --report all.html

    Exit codes are those of the probes; what is no report ends with 2.
    """
    from turngate_probes import report as rendering  # noqa: PLC0415 - imported when asked for, so that --help is quick
    from turngate_probes.report.again import joined, load_report  # noqa: PLC0415

    found = joined([load_report(source) for source in sources], sources)
    return rendering.publish_report(found, rendering.console_for(json_to), sources[0], json_to, reports)
