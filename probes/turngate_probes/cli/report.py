"""The subcommand `report`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from turngate_probes.cli.shared_options import file, output_options
from turngate_probes.report import FORMATS

if TYPE_CHECKING:
    from turngate_probes.report.publish import Printer


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="FROM...", type=file(exists=True))
@output_options(*FORMATS)
def report(sources: tuple[Path, ...], output: "Printer") -> int:
    """Render saved reports in other formats, without running anything.

    Several probe reports are merged. They must have the same level and clauses, and no release may be in two of
    them. A gate report can't be merged.

    \b
    turngate report report.json --report report.html --report report.xml
    turngate report codex.json gemini.json opencode.json --report all.html
    turngate report gate.json --report gate.html

    Exit codes are those of the probes or the gate; 2 also if a file is not a report.
    """
    from turngate import UsageError
    from turngate_probes.gate.decision import load_gate
    from turngate_probes.report.load import joined, load_report
    from turngate_probes.report.publish import publish
    from turngate_probes.report.release_view import view

    gates = [gate for gate in map(load_gate, sources) if gate]
    if gates and len(sources) > 1:
        raise UsageError("a gate report can't be merged with other reports", "pass only this file")
    whole = gates[0] if gates else joined([load_report(source) for source in sources], sources)
    return publish(view(whole), output, sources[0])
