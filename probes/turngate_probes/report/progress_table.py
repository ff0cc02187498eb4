"""What one sees while a probe runs: a table on a terminal, else a plain line now and then."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
    ReleaseFailed,
    ReleaseFinished,
    ReleasePlanned,
)
from turngate_probes.report.github import commands_off
from turngate_probes.report.progress import Progress, ProgressRow
from turngate_probes.report.text import style_of

HEARTBEAT = 15.0
REFRESHES_PER_SECOND = 4

Listener = Callable[[Event], None]
Clock = Callable[[], float]


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
            line = _heartbeat(self._progress, now)
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


def _heartbeat(progress: Progress, now: float) -> str:
    return "; ".join(each for each in (progress.overall(now), *map(_so_far, progress.running())) if each)


def _so_far(row: ProgressRow) -> str:
    counted = f"{row.turns} of {row.planned} turns, {row.passed} passed, {len(row.failing)} failed"
    return f"{row.release}: {counted} ({row.now})"
