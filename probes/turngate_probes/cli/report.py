"""The subcommand `report`."""

from pathlib import Path
from typing import Any

import click

from turngate_probes.cli.options import SUFFIXES, file, output_options


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="FROM...", type=file(exists=True))
@output_options(*SUFFIXES)
def report(sources: tuple[Path, ...], output: Any) -> int:
    """Render saved reports in other formats, without running anything.

    Several FROM are joined, as long as they were asked the same and no release stands in two of them; the report of
    a gate stands alone.

    \b
    turngate report report.json --report report.html --report report.xml
    turngate report codex.json gemini.json opencode.json --report all.html
    turngate report gate.json --report gate.html

    Exit codes are those of the probes or the gate; what is no report ends with 2.
    """
    from turngate import EnvironmentFailed
    from turngate_probes.gate.report import load_gate
    from turngate_probes.report.load import joined, load_report
    from turngate_probes.report.publish import publish

    gates = [gate for gate in map(load_gate, sources) if gate]
    if gates and len(sources) > 1:
        raise EnvironmentFailed("the report of a gate can't be joined with others", "give it alone")
    whole = gates[0] if gates else joined([load_report(source) for source in sources], sources)
    return publish(whole, output, sources[0])
