"""The subcommand `gate`: can you upgrade to a release?"""

from typing import TYPE_CHECKING, Any

import click

from turngate.cli import use_contracts
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
    from turngate_probes.report.publish import Printer


@click.command()
@click.argument("new", metavar="ENGINE@NEW", shell_complete=targets)
@click.option(
    "--from",
    "old",
    metavar="ENGINE@OLD",
    shell_complete=targets,
    help="The release in use now.  [default: the pinned release]",
)
@click.option(
    "--baseline",
    type=file(exists=True),
    metavar="FILE",
    help="Expected failures (YAML). The gate fails if one of them passes, until you remove it.",
)
@clause_option
@click.option("--accept", is_flag=True, help="Write NEW into pins, contract and recordings, for a person to review.")
@click.option(
    "--contracts",
    type=folder(),
    callback=use_contracts,
    expose_value=False,
    metavar="DIR",
    help="Your contracts, which override the bundled ones. --accept writes there.",
)
@output_options(*FORMATS)
@fail_on_options
@many_releases
def gate(new: str, output: "Printer", **asked: Any) -> int:
    """Check whether you can upgrade to a release, and what you must change first.

    Probes both releases, resumes each release's sessions in the other in a shared HOME, and compares clauses, help
    pages, events and the tools offered to the model. NEW can be an executable: codex=/path/to/codex.

    \b
    turngate gate codex@latest
    turngate gate codex@0.169.0 --from codex@0.147.0 --report gate.md
    turngate gate codex@latest --accept

    --fail-on degraded also fails on other clauses that fail in NEW, on deviations that no longer occur, and on
    differences that make NEW worse. --fail-on caveat also fails on every known caveat of NEW.

    Exit codes: 0 green (you can upgrade; the report says whether your orchestrator must change first); 1 red
    (something fails that the baseline does not excuse); 2 not everything could be tested; 130 interrupted.
    """
    from turngate.process.sessions import adopting_orphans
    from turngate_probes.gate import decision
    from turngate_probes.gate.accept import accept
    from turngate_probes.gate.accept.targets import accept_target
    from turngate_probes.harness.interrupt import interruptible, interrupting
    from turngate_probes.report.publish import publish
    from turngate_probes.report.release_view import view

    into = accept_target() if asked.pop("accept") else None
    question = decision.question(new, asked.pop("old"), **asked)
    with adopting_orphans(), interruptible() as interrupt:
        report = decision.answer(question, output.progress, interrupt)
    with adopting_orphans(), interrupting(interrupt.set):
        code = publish(view(report), output)
        if into is not None:
            accept(report, into, question.new, question.settings.probe, interrupt, output.console)
    return code
