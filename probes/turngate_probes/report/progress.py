"""The progress of a running probe: a table on a terminal, otherwise a plain line now and then."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import inf

from msgspec import Struct
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from turngate.contract.clauses import Reason, Result
from turngate.sanitize import visible
from turngate_probes.harness.interrupt import Interrupt
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
from turngate_probes.report.lines import style_of
from turngate_probes.report.wording import from_where, label

HEARTBEAT = 30.0
LONGEST_LINE, LONGEST_NAME = 120, 60  # characters
ENOUGH_TURNS = 5  # turns of a release that say how long the others take
REFRESHES_PER_SECOND = 4
ENOUGH_FOR_MINUTES = 100.0  # seconds
WIDE = 160  # columns of a terminal in which the longest step has room beside the other columns
WIDEST_NAME = 50
COLUMNS = ("release", "state", "turns", "passed", "failed", "seconds")

Listener = Callable[[Event], None]
Clock = Callable[[], float]


class ProgressRow(Struct):
    """One release so far: its state in a word, the current step, and the counts.

    `planned` is an estimate, and grows with turns that only what the release does calls for.
    """

    release: str
    planned: int
    begun: float
    state: str = "waiting"
    now: str = ""
    turns: int = 0
    passed: int = 0
    failing: list[str] = []
    ended: float | None = None

    def follow(self, event: ReleaseEvent, now: float) -> None:
        """Handle an event of the release."""
        if self.state == "waiting":
            self.begun = now
        match event:
            case InstallProgress():
                self.state, self.now = "installing", event.text
            case TurnEvent():
                self.state, self.now, self.turns = "running", f"{event.name} done", self.turns + 1
                self.planned = max(self.planned, self.turns)
            case ClauseEvent():
                self.state = "running"
                self.passed += event.result is Result.PASS
                self.failing += [event.id] if event.result is Result.FAIL else []
            case ReleaseFinished() | ReleaseFailed():
                self.state = (event.verdict or "done") if isinstance(event, ReleaseFinished) else "not tested"
                self.ended, self.now = now, ""

    def cells(self, now: float) -> tuple[Text, ...]:
        """Return the cells of the row in a table, without its step."""
        seconds = (now if self.ended is None else self.ended) - self.begun
        return (
            Text(visible(self.release)),
            Text(self.state, style_of(self.state)),
            Text(f"{self.turns}/{self.planned}"),
            Text(str(self.passed)),
            Text(str(len(self.failing)), "red" if self.failing else ""),
            Text("" if self.state == "waiting" else f"{seconds:.0f}"),
        )

    def step(self) -> Text:
        """Return the clauses that fail so far, and the current step."""
        failing = Text(" ".join(map(visible, self.failing)), "red")
        return Text(" ").join(part for part in (failing, Text(visible(self.now), "dim")) if part)

    def left(self, now: float, longest: float) -> float:
        """Return the seconds until it ends at its current pace; before its first turn, assume the `longest`."""
        elapsed = now - self.begun
        return max(0.0, elapsed * (self.planned - self.turns) / self.turns if self.turns else longest - elapsed)

    def __str__(self) -> str:
        """Render as a part of a line."""
        counted = f"{self.turns} of {_estimated(self.planned)}, {self.passed} passed, {len(self.failing)} failed"
        return f"{_named(self.release)}: {counted}" + (f" ({self.now})" if self.now else "")

    def counted(self) -> str:
        """Render as one of many parts of a line."""
        if not self.planned:
            return f"{_named(self.release)}: {self.state}"
        failed = f", {len(self.failing)} failed" if self.failing else ""
        return f"{_named(self.release)}: {self.turns} of {_turns(self.planned)}{failed}"


class Progress:
    """The rows of all releases, in the planned order, rendered as a table of the current state."""

    def __init__(self, clock: Clock) -> None:
        self.rows: dict[str, ProgressRow] = {}
        self._clock, self._lock = clock, threading.Lock()
        self._planned = self._kept = 0
        self._done = set[str]()
        self._unit, self._at_most, self._begun, self._last_turns = "releases", "", 0.0, 0

    def follow(self, event: Event) -> None:
        """Handle an event."""
        with self._lock:
            self._follow(event, self._clock())

    def _follow(self, event: Event, now: float) -> None:
        match event:
            case MatrixPlanned():
                self._begun = self._begun if self._planned else now
                self._planned, self._kept, self._unit = event.releases, event.kept, event.unit
                self._at_most, self._last_turns = "at most " if event.at_most else "", event.last_turns
            case ReleasePlanned():
                if self._unit == "parts" and not any(row.planned for row in self.rows.values()):
                    self._begun = now  # a gate installs its releases at once, unlike a matrix
                row = self.rows.get(event.release)  # exists already if it was installed
                begun, state = (row.begun, "running") if row else (now, "waiting")
                waits = f"waits {event.waits}" if event.waits else ""
                self.rows[event.release] = ProgressRow(event.release, event.turns, begun, state, waits)
            case ProbeStarted() | ProbeFinished():
                pass
            case _:
                if self._planned and isinstance(event, InstallProgress):
                    self.rows.setdefault(event.release, ProgressRow(event.release, 0, now))
                if row := self.rows.get(event.release):
                    row.follow(event, now)
                if isinstance(event, ReleaseFinished | ReleaseFailed):
                    self._done.add(event.release)

    def running(self) -> list[ProgressRow]:
        """List the releases that are running."""
        return [row for row in self.rows.values() if row.ended is None and row.state != "waiting"]

    def overall(self) -> str:
        """Return the progress of a matrix or gate: done, running, left, estimate; empty for other probes."""
        if not self._planned:
            return ""
        running, finished = len(self.running()), self._kept + len(self._done)
        left = max(0, self._planned - finished - running)
        kept = f", {self._kept} of them earlier" if self._kept else ""
        done = f"{finished} of {self._at_most}{self._planned} {self._unit} done{kept}, {running} running, {left} left"
        return f"{done}, {self._estimate(left, self._clock())}"

    def _estimate(self, left: int, now: float) -> str:
        plans = [row.planned for row in self.rows.values() if row.planned]
        # the last one, as a part of the longest of the others
        last = min(1.0, self._last_turns / max(plans)) if self._last_turns and plans else 1.0
        todo, running = self._planned - self._kept - 1 + last, self.running()
        is_last = self._planned - self._kept - len(self._done) == 1
        parts = sum(min(1.0, row.turns / row.planned) for row in running if row.planned) * (last if is_last else 1.0)
        share = min(1.0, (len(self._done) + parts) / todo) if todo > 0 else 1.0
        # the very first turns, which may start slowly, say nothing about the others
        turns = sum(row.turns for row in running)
        if not share or not (self._done or self._kept or turns >= ENOUGH_TURNS):
            return "no estimate yet"
        # at most what is left: running releases at their own pace, then the others one after the other
        longest = max((row.ended - row.begun for row in self.rows.values() if row.ended and row.turns), default=inf)
        most = max((row.left(now, longest) for row in running), default=0.0) + (
            (left - 1 + last) * longest if left else 0.0
        )
        seconds = min((now - self._begun) * (1 - share) / share, most)
        if round(seconds) == 0:
            return "almost done"
        return f"about {seconds / 60:.0f} min more" if seconds >= ENOUGH_FOR_MINUTES else f"about {seconds:.0f} s more"

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        """Render the table of the current state. In a narrow terminal, steps are below it, so that no word is cut."""
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        is_wide = options.max_width >= WIDE
        table.add_column(COLUMNS[0], overflow="fold", max_width=WIDEST_NAME if is_wide else None)
        for heading in COLUMNS[1:]:
            table.add_column(heading, justify="left" if heading == COLUMNS[1] else "right", no_wrap=True)
        if is_wide:
            table.add_column("now", overflow="fold")
        with self._lock:
            overall, now = self.overall(), self._clock()
            # a matrix has more releases than a terminal has lines
            rows = self.running() if overall else list(self.rows.values())
            steps = [(Text(f"{visible(row.release)}: "), row.step()) for row in rows]
            for row, (_, step) in zip(rows, steps, strict=True):
                table.add_row(*row.cells(now), *([step] if is_wide else []))
        yield table
        if not is_wide:
            yield from (Text.assemble(name, step) for name, step in steps if step)
        if overall:
            yield Text(overall, "dim")


class ProgressLines:
    """Prints a line for each important event, and one for the progress after `HEARTBEAT` seconds without a line."""

    def __init__(self, console: Console, clock: Clock) -> None:
        self._console, self._clock, self._last = console, clock, clock()
        self._progress, self._installing, self._lock = Progress(clock), set[str](), threading.Lock()

    def follow(self, event: Event) -> None:
        """Handle an event, and print its lines."""
        with self._lock:
            begins = False
            if isinstance(event, InstallProgress):
                begins = event.release not in self._installing
                self._installing.add(event.release)
            self._progress.follow(event)
            lines = _lines(event, begins=begins)
            if isinstance(event, ReleaseFinished | ReleaseFailed) and (overall := self._progress.overall()):
                whole = f"{lines[0]} ({overall})"
                lines = [whole] if len(whole) <= LONGEST_LINE else [*lines, overall]
            self._print(lines)
        self.beat()

    def beat(self) -> float:
        """Print the progress if it is due, and return the seconds until it may be due again."""
        with self._lock:
            if (left := self._last + HEARTBEAT - self._clock()) > 0:
                return left
            overall, running = self._progress.overall(), self._progress.running()
            rows = running or [row for row in self._progress.rows.values() if row.ended is None]
            self._print([_fitted([overall, *(row.counted() for row in running)])] if overall else map(str, rows))
            return HEARTBEAT

    def _print(self, lines: Iterable[str]) -> None:
        for line in filter(None, lines):
            self._last = self._clock()
            self._console.print(Text(_cut(visible(line))), soft_wrap=True)


def _fitted(parts: Sequence[str]) -> str:
    """Return as many parts as have room in a line, and how many others there are."""
    line = parts[0] if parts else ""
    for place, part in enumerate(parts[1:], 1):
        others = f"; {len(parts) - place} more running" if place + 1 < len(parts) else ""
        if len(line) + len(part) + len(others) + 2 > LONGEST_LINE:
            return f"{line}; {len(parts) - place} more running"
        line = f"{line}; {part}"
    return line


def _cut(line: str) -> str:
    """Return the beginning of a line, up to the end of a word if possible; the report has all of it."""
    if len(line) <= LONGEST_LINE:
        return line
    room = line[: LONGEST_LINE - 2]
    end = room.rfind(" ", LONGEST_LINE // 2)
    return f"{room[:end]} …" if end > 0 else f"{room} …"


def _named(release: str) -> str:
    """Return the name of a release for a line, without the middle if it has a long path."""
    return release if len(release) <= LONGEST_NAME else f"{release[:25]}…{release[26 - LONGEST_NAME :]}"


def _turns(count: int) -> str:
    return "1 turn" if count == 1 else f"{count} turns"


def _estimated(count: int) -> str:
    """Say that a number of turns is an estimate, unless nothing asks for a turn."""
    return f"about {_turns(count)}" if count else "0 turns"


def _lines(event: Event, *, begins: bool) -> list[str]:
    name = _named(event.release) if isinstance(event, ReleaseEvent) else ""
    match event:
        case InstallProgress() if begins:
            return [f"{name}: {event.text}"]
        case ReleasePlanned():
            planned, where = f"{name}: {_estimated(event.turns)} planned", event.executable
            room = LONGEST_LINE - len(planned) - len(" (…)")
            if where and len(where) > room:
                end = where[-room:]
                where = f"…{end[max(0, end.find('/')) :]}"
            waits = [f"{name}: waits {event.waits}"] if event.waits else []
            return [f"{planned} ({where or from_where(event.source)})", *waits]
        case ClauseEvent() if event.result is Result.NOT_RUN and (event.needs or event.reason is Reason.INTERRUPTED):
            return []  # of one failure or interruption, many are not run
        case ClauseEvent() if event.result is not Result.PASS:
            return [f"{name}: {label(event.result)} {event.id}: {event.detail}"]
        case ReleaseFailed():
            return [f"{name}: could not be tested: {event.what}"]
        case ReleaseFinished():
            return [f"{name}: {event.verdict or 'done'} after {_turns(event.turns)} in {event.seconds:.1f} s"]
    return []


@contextmanager
def heartbeats(beat: Callable[[], float], interrupt: Interrupt) -> Iterator[None]:
    """Call `beat` in a thread while the block runs: after `HEARTBEAT` seconds, then after as many as it returned.

    If it raises OSError, `interrupt` is set, and the error is raised when the block ends.
    """
    failed, ended = list[OSError](), threading.Event()

    def run() -> None:
        due = HEARTBEAT
        try:
            while not ended.wait(due):
                due = beat()
        except OSError as error:
            failed.append(error)
            interrupt.set()

    thread = threading.Thread(target=run, name="progress")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        if failed:
            raise failed[0]


@contextmanager
def live(console: Console, interrupt: Interrupt, clock: Clock = time.monotonic) -> Iterator[Listener]:
    """Show the progress of a probe while the block runs, and yield the listener for the journal.

    The table on a terminal disappears when the block ends; lines stay, and a thread prints the progress if nothing else
    happens for long. If a line can't be printed, the probe is interrupted, and the OSError is raised when the block
    ends. `clock` never goes back.
    """
    if not console.is_terminal or console.is_dumb_terminal:
        lines, failed = ProgressLines(console, clock), list[OSError]()

        def follow(event: Event) -> None:
            try:
                lines.follow(event)
            except OSError as error:
                failed.append(error)
                interrupt.set()

        try:
            with commands_off(console), heartbeats(lines.beat, interrupt):
                yield follow
        finally:
            if failed:
                raise failed[0]
        return
    progress = Progress(clock)
    with Live(progress, console=console, refresh_per_second=REFRESHES_PER_SECOND, transient=True):
        yield progress.follow
