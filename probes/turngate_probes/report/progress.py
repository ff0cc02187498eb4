"""How far a probe is, folded from its events."""

from dataclasses import dataclass, field

from turngate.contract.clauses import Result
from turngate_probes.journal.events import (
    ClauseEvent,
    Event,
    InstallProgress,
    MatrixPlanned,
    ProbeFinished,
    ProbeStarted,
    ReleaseEvent,
    ReleaseFailed,
    ReleaseFinished,
    ReleasePlanned,
    TurnEvent,
)

ENOUGH_FOR_MINUTES = 100.0  # seconds


@dataclass(slots=True)
class ProgressRow:
    """One release so far: its state in a word, what happens now, and what was counted."""

    release: str
    planned: int
    begun: float
    state: str = "waiting"
    now: str = ""
    turns: int = 0
    passed: int = 0
    failing: list[str] = field(default_factory=list)
    ended: float | None = None

    def seconds(self, now: float) -> float:
        """Return the seconds from its first event until it ended, or until `now`."""
        return (now if self.ended is None else self.ended) - self.begun

    def follow(self, event: ReleaseEvent) -> None:
        """Take in one event of the release."""
        match event:
            case InstallProgress():
                self.state, self.now = "installing", event.text
            case TurnEvent():
                self.state, self.now, self.turns = "running", f"{event.name} done", self.turns + 1
            case ClauseEvent():
                self.state = "running"
                self.passed += event.result is Result.PASS
                self.failing += [event.id] if event.result is Result.FAIL else []
            case ReleaseFinished():
                self.state = event.verdict
            case ReleaseFailed():
                self.state = "not asked"


class Progress:
    """The rows of all releases, in the order in which they were planned."""

    def __init__(self) -> None:
        self.rows: dict[str, ProgressRow] = {}
        self.planned = self.kept = self.done = 0
        self._unit, self._begun = "releases", 0.0

    def follow(self, event: Event, now: float) -> None:
        """Take in one event that happened at `now` (seconds on a clock that never goes back)."""
        if isinstance(event, MatrixPlanned):
            self._begun = self._begun if self.planned else now
            self.planned, self.kept, self._unit = event.releases, event.kept, event.unit
        if isinstance(event, ProbeStarted | ProbeFinished | MatrixPlanned):
            return
        if isinstance(event, ReleasePlanned):
            self.rows[event.release] = ProgressRow(event.release, event.turns, now)
            return
        if self.planned and isinstance(event, InstallProgress) and event.release not in self.rows:
            self.rows[event.release] = ProgressRow(event.release, 0, now)
        row = self.rows.get(event.release)
        if row is None:
            return
        if row.state == "waiting":
            row.begun = now
        row.follow(event)
        if isinstance(event, ReleaseFinished | ReleaseFailed):
            row.ended, row.now = now, ""
            self.done += 1

    def running(self) -> list[ProgressRow]:
        """List the releases that have begun and not ended."""
        return [row for row in self.rows.values() if row.ended is None and row.state != "waiting"]

    def overall(self, now: float) -> str:
        """Return the progress of a matrix or gate: done, running, left, estimate; empty for other probes."""
        if not self.planned:
            return ""
        running = len(self.running())
        left = max(0, self.planned - self.kept - self.done - running)
        kept = f", {self.kept} of them earlier" if self.kept else ""
        said = f"{self.kept + self.done} of {self.planned} {self._unit} done{kept}, {running} running, {left} left"
        return f"{said}, {self._estimate(now)}"

    def _estimate(self, now: float) -> str:
        todo = self.planned - self.kept
        parts = sum(min(1.0, row.turns / row.planned) for row in self.running() if row.planned)
        share = min(1.0, (self.done + parts) / todo) if todo else 1.0
        if not share:
            return "no estimate yet"
        seconds = (now - self._begun) * (1 - share) / share
        return f"about {seconds / 60:.0f} min more" if seconds >= ENOUGH_FOR_MINUTES else f"about {seconds:.0f} s more"
