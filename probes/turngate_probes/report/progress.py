"""What one sees while a probe runs: a table on a terminal, else a plain line now and then."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from turngate.contract.clauses import Result
from turngate.sanitize import visible
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
from turngate_probes.report.github import commands_off
from turngate_probes.report.text import style_of

HEARTBEAT = 15.0
REFRESHES_PER_SECOND = 4
ENOUGH_FOR_MINUTES = 100.0  # seconds

Listener = Callable[[Event], None]
Clock = Callable[[], float]


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
                self.state = event.verdict or "done"
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
        done = f"{self.kept + self.done} of {self.planned} {self._unit} done{kept}, {running} running, {left} left"
        return f"{done}, {self._estimate(now)}"

    def _estimate(self, now: float) -> str:
        todo = self.planned - self.kept
        parts = sum(min(1.0, row.turns / row.planned) for row in self.running() if row.planned)
        share = min(1.0, (self.done + parts) / todo) if todo else 1.0
        if not share:
            return "no estimate yet"
        seconds = (now - self._begun) * (1 - share) / share
        return f"about {seconds / 60:.0f} min more" if seconds >= ENOUGH_FOR_MINUTES else f"about {seconds:.0f} s more"


@contextmanager
def live(console: Console, clock: Clock = time.monotonic) -> Iterator[Listener]:
    """Show the progress of a probe while the block runs; give the listener to hand to the journal.

    The table of a terminal is gone when the block ends; lines stay. `clock` gives seconds, never
    fewer than before.
    """
    if not console.is_terminal or console.is_dumb_terminal:
        with commands_off(console):
            yield ProgressLines(console, clock).show
        return
    table = LiveTable(clock)
    with Live(table, console=console, refresh_per_second=REFRESHES_PER_SECOND, transient=True):
        yield table.follow


class LiveTable:
    """A table that is drawn anew from whatever is known then."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._progress = Progress()

    def follow(self, event: Event) -> None:
        """Take in one event."""
        with self._lock:
            self._progress.follow(event, self._clock())

    def __rich__(self) -> RenderableType:
        """Draw the table as things are now."""
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for heading in ("release", "state"):
            table.add_column(heading, no_wrap=True)
        for heading in ("turns", "passed", "failed", "seconds"):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("now", overflow="fold")
        now = self._clock()
        with self._lock:
            overall = self._progress.overall(now)
            # a matrix has more releases than a terminal has lines
            for row in self._progress.running() if overall else self._progress.rows.values():
                table.add_row(*_cells(row, now))
        return Group(table, Text(overall, "dim")) if overall else table


def _cells(row: ProgressRow, now: float) -> tuple[Text, ...]:
    failing = Text(" ".join(map(visible, row.failing)), "red")
    return (
        Text(visible(row.release)),
        Text(row.state, style_of(row.state)),
        Text(f"{row.turns}/{row.planned}"),
        Text(str(row.passed)),
        Text(str(len(row.failing)), "red" if row.failing else ""),
        Text("" if row.state == "waiting" else f"{row.seconds(now):.0f}"),
        Text(" ").join(part for part in (failing, Text(visible(row.now), "dim")) if part),
    )


class ProgressLines:
    """Prints a line for what matters, and one on how far it is at most every `HEARTBEAT` seconds."""

    def __init__(self, console: Console, clock: Clock) -> None:
        self._console = console
        self._clock = clock
        self._progress = Progress()
        self._last = clock()

    def show(self, event: Event) -> None:
        """Take in one event and print what it calls for."""
        row = self._progress.rows.get(event.release) if isinstance(event, InstallProgress) else None
        begins = row is not None and row.state == "waiting"
        now = self._clock()
        self._progress.follow(event, now)
        line = _line(event, begins=begins)
        if line is None and now - self._last >= HEARTBEAT:
            lines = self._progress.overall(now), *map(_so_far, self._progress.running())
            line = "; ".join(filter(None, lines))
        elif isinstance(event, ReleaseFinished | ReleaseFailed) and (overall := self._progress.overall(now)):
            line = f"{line} ({overall})"
        if line:
            self._last = now
            self._console.print(Text(visible(line)), soft_wrap=True)


def _line(event: Event, *, begins: bool) -> str | None:
    match event:
        case InstallProgress() if begins:
            return f"{event.release}: {event.text}"
        case ReleasePlanned():
            where = event.executable or f"from {event.source}"
            return f"{event.release}: {event.turns} turns planned ({where})"
        case ClauseEvent() if event.result is not Result.PASS:
            return f"{event.release}: {event.result} {event.id}: {event.detail}"
        case ReleaseFailed():
            return f"{event.release}: could not be asked: {event.what}"
        case ReleaseFinished():
            return f"{event.release}: {event.verdict} after {event.turns} turns in {event.seconds:.1f} s"
    return None


def _so_far(row: ProgressRow) -> str:
    counted = f"{row.turns} of {row.planned} turns, {row.passed} passed, {len(row.failing)} failed"
    return f"{row.release}: {counted} ({row.now})"
