"""One home, two releases: each resumes what the other made."""

from dataclasses import replace

from turngate_probes.clauses.gate import CASE
from turngate_probes.harness.cases import ASK, FINAL, Case, ask
from turngate_probes.harness.driver import EngineDriver
from turngate_probes.harness.observations import Turn
from turngate_probes.releases.source import Release

CLAUSES = ("upgrade.resume", "rollback.resume", "rollback.touched")


def cross_resume(old: Release) -> Case:
    """Make the case in which the release under probe shares a home with `old`.

    A session that begins in the older release goes on in the newer one, and then in the older one again; one that
    begins in the newer release goes on in the older one.
    """

    def play(newer: EngineDriver) -> None:
        assert old.executable is not None  # noqa: S101 - the gate asks for executables alone
        older = replace(newer, contract=old.contract, executable=old.executable)
        first = _start(older, "old-first")
        if first.session is not None:
            _resume(newer, "new-again", first, 2)
            _resume(older, "old-third", first, 3)
        _resume(older, "old-again", _start(newer, "new-first"), 2)

    return Case(CASE, play, 5, level="gate")


def _start(engine: EngineDriver, step: str) -> Turn:
    engine.sandbox.furnish(engine.contract.hermetic)
    return engine.start(step, ask(ASK))


def _resume(engine: EngineDriver, step: str, first: Turn, turn_index: int) -> Turn:
    engine.sandbox.furnish(engine.contract.hermetic)
    # each release is asked, even if its contract does not know the shape of the id
    return engine.resume(step, first.session, replace(ask(FINAL, turn_index=turn_index), check_shape=False))
