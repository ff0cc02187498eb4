"""The subcommand `gate`: may a release take another one's place."""

from pathlib import Path
from typing import Any

import click

from turngate_probes.cli.matrix import shared
from turngate_probes.cli.report import report_option


@click.command()
@click.argument("new", metavar="ENGINE@NEW")
@click.option("--from", "old", metavar="ENGINE@OLD", help="The release in use now.  [default: the pinned release]")
@click.option(
    "--baseline", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
    help="Expected failures (YAML). The gate fails if one of them passes, until you remove it.",
)  # fmt: skip
@click.option("--clause", "clauses", multiple=True, metavar="ID", help="Run only this clause and its prerequisites.")
@click.option("--accept", is_flag=True, help="Write NEW into pins, contract and recordings, for a person to review.")
@click.option(
    "--contracts", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
    help="Your contracts, which override the bundled ones. --accept writes there.",
)  # fmt: skip
@report_option
@shared
def gate(new: str, **asked: Any) -> int:
    """Check whether you can upgrade to a release, and what you must change first.

    Probes both releases, resumes each release's sessions in the other in a shared HOME, and compares clauses, help
    pages, events and the tools that the model is offered. NEW can be an executable: codex=/path/to/codex.

    \b
    turngate gate codex@0.170.0
    turngate gate codex@latest --from codex@0.154.0 --report gate.md
    turngate gate codex@0.170.0 --accept

    Exit codes: 0 you can upgrade; 1 something breaks that the baseline does not excuse; 2 no answer;
    130 interrupted.
    """
    from turngate_probes.gate import command  # noqa: PLC0415 - imported when asked for, so that --help is quick
    from turngate_probes.gate.accept import accept  # noqa: PLC0415
    from turngate_probes.gate.accept.targets import accept_target  # noqa: PLC0415
    from turngate_probes.harness.interrupt import interruptible, interrupting  # noqa: PLC0415
    from turngate_probes.report.publish import console_for, publish  # noqa: PLC0415

    into = accept_target(asked.pop("contracts"), accept=asked.pop("accept"))
    json_to, reports = asked.pop("json_to"), asked.pop("reports")
    question = command.question(new, asked.pop("old"), **asked)
    console = console_for(json_to)
    with interruptible() as interrupt:
        report = command.answer(question, console, interrupt)
    with interrupting(interrupt.set):
        code = publish(report, console, json_to, reports)
        if into is not None:
            accept(report, into, question.new, question.settings.probe, interrupt, console)
    return code
