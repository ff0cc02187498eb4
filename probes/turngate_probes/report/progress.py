"""How far a probe is, folded from its events."""

from collections.abc import Callable
from dataclasses import dataclass, field

from turngate.contract.clauses import Result
from turngate_probes.journal.journal import Event

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


class Progress:
    """The rows of all releases, in the order in which they were planned."""

    def __init__(self) -> None:
        self.rows: dict[str, ProgressRow] = {}
        self.planned = self.kept = self.done = 0
        self._unit, self._begun = "releases", 0.0

    def follow(self, event: Event, now: float) -> None:
        """Take in one event that happened at `now` (seconds on a clock that never goes back)."""
        if event["event"] == "matrix.planned":
            self._begun = self._begun if self.planned else now
            self.planned, self.kept, self._unit = event["releases"], event["kept"], event.get("unit", self._unit)
        if event["event"] == "release.planned":
            self.rows[event["release"]] = ProgressRow(event["release"], event["turns"], now)
            return
        if self.planned and event["event"] == "install.progress" and event["release"] not in self.rows:
            self.rows[event["release"]] = ProgressRow(event["release"], 0, now)
        row = self.rows.get(event.get("release", ""))
        if row is None:
            return
        if row.state == "waiting":
            row.begun = now
        step = _STEPS.get(event["event"])
        if step:
            step(row, event)
        if event["event"] in ("release.finished", "release.failed"):
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


def _installing(row: ProgressRow, event: Event) -> None:
    row.state, row.now = "installing", event["text"]


def _turn(row: ProgressRow, event: Event) -> None:
    row.state, row.now = "running", f"{event['case']}/{event['step']} done"
    row.turns += 1


def _clause(row: ProgressRow, event: Event) -> None:
    row.state = "running"
    if event["result"] == Result.PASS:
        row.passed += 1
    if event["result"] == Result.FAIL:
        row.failing.append(event["id"])


def _finished(row: ProgressRow, event: Event) -> None:
    row.state = event["verdict"]


def _failed(row: ProgressRow, _event: Event) -> None:
    row.state = "not asked"


_STEPS: dict[str, Callable[[ProgressRow, Event], None]] = {
    "install.progress": _installing,
    "turn": _turn,
    "clause": _clause,
    "release.finished": _finished,
    "release.failed": _failed,
}
