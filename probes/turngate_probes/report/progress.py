"""How far a probe is, folded from its events."""

from collections.abc import Callable
from dataclasses import dataclass, field

from turngate.clauses import Result
from turngate_probes.journal import Event


@dataclass(slots=True)
class Row:
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
        """Give the seconds from its first event until it ended, or until `now`."""
        return (now if self.ended is None else self.ended) - self.begun


class Progress:
    """The rows of all releases, in the order in which they were planned."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}

    def follow(self, event: Event, now: float) -> None:
        """Take in one event that happened at `now` (seconds on a clock that never goes back)."""
        if event["event"] == "release.planned":
            self.rows[event["release"]] = Row(event["release"], event["turns"], now)
            return
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


def _installing(row: Row, event: Event) -> None:
    row.state, row.now = "installing", event["text"]


def _turn(row: Row, event: Event) -> None:
    row.state, row.now = "running", f"{event['case']}/{event['step']} done"
    row.turns += 1


def _clause(row: Row, event: Event) -> None:
    row.state = "running"
    if event["result"] == Result.PASS:
        row.passed += 1
    if event["result"] == Result.FAIL:
        row.failing.append(event["id"])


def _finished(row: Row, event: Event) -> None:
    row.state = event["verdict"]


def _failed(row: Row, _event: Event) -> None:
    row.state = "not asked"


_STEPS: dict[str, Callable[[Row, Event], None]] = {
    "install.progress": _installing,
    "turn": _turn,
    "clause": _clause,
    "release.finished": _finished,
    "release.failed": _failed,
}
