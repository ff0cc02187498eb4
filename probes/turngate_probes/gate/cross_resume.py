"""One home, two releases: each resumes what the other made."""

from dataclasses import dataclass, replace

from turngate.contract.structs import EngineContract
from turngate_probes.clauses.gate import CASE
from turngate_probes.harness.cases import ASK, FINAL, Case, ask
from turngate_probes.harness.driver import EngineDriver
from turngate_probes.harness.observations import Turn
from turngate_probes.releases.source import Release

CLAUSES = ("upgrade.resume", "rollback.resume", "rollback.touched")


def cross_resume(old: Release) -> Case:
    """Make the case in which the release under probe shares a home with `old`."""

    def play(lab: EngineDriver) -> None:
        home = _Home(lab, _labs_of(lab, old))
        home.upgrade()
        home.rollback()

    return Case(CASE, play, 5, level="gate")


@dataclass(frozen=True, slots=True)
class _Home:
    """The home with the labs of both releases; the older one's part is left out if its session never began."""

    new: EngineDriver
    old: EngineDriver

    def upgrade(self) -> None:
        """A session begins in the older release, goes on in the newer one, and then in the older one again."""
        first = self._start(self.old, "old-first")
        if first.session is None:
            return
        self._resume(self.new, "new-again", first, 2)
        self._resume(self.old, "old-third", first, 3)

    def rollback(self) -> None:
        """A session begins in the newer release and goes on in the older one."""
        self._resume(self.old, "old-again", self._start(self.new, "new-first"), 2)

    def _start(self, lab: EngineDriver, step: str) -> Turn:
        lab.sandbox.furnish(lab.contract.hermetic)
        return lab.start(step, ask(ASK))

    def _resume(self, lab: EngineDriver, step: str, first: Turn, turn_index: int) -> Turn:
        lab.sandbox.furnish(lab.contract.hermetic)
        # each release is asked, be the id of a shape that its contract knows or not
        return lab.resume(step, first.session, replace(ask(FINAL, turn_index=turn_index), check_shape=False))


def _labs_of(lab: EngineDriver, old: Release) -> EngineDriver:
    """Put the older release into the place of the newer one, all else as it is."""
    contract: EngineContract = old.contract
    assert old.executable is not None  # noqa: S101 - the gate asks for executables alone
    return replace(lab, contract=contract, executable=old.executable)
