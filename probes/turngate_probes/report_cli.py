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
    """Render reports again from JSON reports or journals of probes, or the JSON report of a gate, running nothing.

    Several FROM are joined, as long as they were asked the same and no release stands in two of them; the report of
    a gate stands alone.

    \b
    turngate report report.json --report report.html --report report.xml
    turngate report codex.json gemini.json opencode.json --report all.html
    turngate report gate.json --report gate.html

    Exit codes are those of the probes or the gate; what is no report ends with 2.
    """
    from turngate.errors import EnvironmentFailed  # noqa: PLC0415 - imported when asked for, so that --help is quick
    from turngate_probes import report as rendering  # noqa: PLC0415
    from turngate_probes.gate.again import load_gate  # noqa: PLC0415
    from turngate_probes.gate.publish import publish  # noqa: PLC0415
    from turngate_probes.report.again import joined, load_report  # noqa: PLC0415

    gates = [gate for gate in map(load_gate, sources) if gate]
    if gates and len(sources) > 1:
        raise EnvironmentFailed("the report of a gate can't be joined with others", "give it alone")
    if gates:
        return publish(gates[0], rendering.console_for(json_to), json_to, reports)
    found = joined([load_report(source) for source in sources], sources)
    return rendering.publish_report(found, rendering.console_for(json_to), sources[0], json_to, reports)
