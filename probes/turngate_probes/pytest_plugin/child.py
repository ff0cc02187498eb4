"""The probe of `pytest --turngate` as a program of its own: it adopts what engines leave, which pytest must not do."""

import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from turngate.contract.clauses import Level
from turngate.contract.lint import override
from turngate.contract.verdict import FailOn
from turngate.decoding import decode
from turngate.process.sessions import adopting_orphans
from turngate_probes.harness.interrupt import Interrupt, at_end_of_input, interrupting
from turngate_probes.harness.runner import CaseRunner
from turngate_probes.journal.journal import Journal
from turngate_probes.probe import Probe
from turngate_probes.probe_settings import ProbeSettings, default_jobs, sandboxes_path
from turngate_probes.releases.target import parse_target


class Request(Struct, frozen=True):
    """What to probe, and a journal for each target, because a release does not say which target named it.

    `clauses` are the only ones to test (empty: all). `contracts` is the folder that overrides the packaged ones.
    """

    targets: dict[str, str]
    level: Level
    fail_on: FailOn
    clauses: tuple[str, ...]
    contracts: str | None


def probe(request: Request) -> None:
    """Probe all targets, until a signal or the end of standard input stops it."""
    if request.contracts:
        override(Path(request.contracts))
    settings = ProbeSettings(
        request.level, default_jobs(), sandboxes_path(None), fail_on=request.fail_on, clauses=request.clauses
    )
    interrupt = Interrupt()
    at_end_of_input(interrupt.set)
    runner = CaseRunner.of(settings.sandboxes, settings.jobs, interrupt)

    def one(target: str, path: str) -> None:
        with closing(Journal(Path(path))) as journal:
            Probe(settings, journal, runner).run([parse_target(target)])

    with adopting_orphans(), interrupting(interrupt.set), ThreadPoolExecutor(len(request.targets)) as pool:
        list(pool.map(one, request.targets, request.targets.values()))


def main() -> None:
    """Probe what the only argument asks for, a `Request` as JSON."""
    probe(decode(sys.argv[1], Request))


if __name__ == "__main__":
    main()
