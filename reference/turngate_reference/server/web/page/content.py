"""Reads what the pages show from the store, within limits."""

import signal
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from turngate import Outcome
from turngate.sanitize import command_line
from turngate_reference.engine.attempt import traces
from turngate_reference.server.app import Server
from turngate_reference.server.orchestrator.engines import EngineStatus
from turngate_reference.server.orchestrator.workspace_files import is_artifact
from turngate_reference.server.requests import ApiError
from turngate_reference.server.store import files, runs
from turngate_reference.server.store.database import Store
from turngate_reference.server.store.events import StoredEvent
from turngate_reference.server.store.files import ChangedFile
from turngate_reference.server.store.runs import Run, StoredQuestion, StoredTurn, Summary
from turngate_reference.server.web.page.conversation import Conversation, conversation
from turngate_reference.server.web.page.display_text import OutputTail, outputs
from turngate_reference.states import ENDED, State

PAGE = 25
MAX_EVENTS = 100
MAX_OPTIONS = 50
MAX_BUTTONS, MAX_LABEL = 6, 60
MAX_WORD = 400
_PROMPT = 160
_OUTCOMES: dict[str, str] = {Outcome.FINAL: "finished", Outcome.ASK_USER: "asked you", Outcome.ERROR: "failed"}


class RunRow(Struct, frozen=True):
    """A run in a list; `prompt` is how its first prompt begins."""

    run: Summary
    prompt: str


class RunList(Struct, frozen=True):
    """One page of runs, newest first; `older` is where the next page goes on (None: this is the last)."""

    rows: list[RunRow]
    older: int | None


class Question(Struct, frozen=True):
    """An open question; `is_permission` says that only its options are accepted."""

    row: RunRow
    stored: StoredQuestion

    @property
    def is_permission(self) -> bool:
        """Whether the engine asks for permission to act."""
        return self.stored.request_id is not None

    @property
    def kind(self) -> str:
        """What kind of answer the agent wants."""
        return self.stored.question.kind

    @property
    def options(self) -> tuple[str, ...]:
        """The options that are shown."""
        return self.stored.suggestions[:MAX_OPTIONS]

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that are shown in a form."""
        return self.stored.question.required_fields[:MAX_OPTIONS]

    @property
    def has_buttons(self) -> bool:
        """Whether the options are few and short enough for buttons."""
        return len(self.options) <= MAX_BUTTONS and all(len(option) <= MAX_LABEL for option in self.options)

    @property
    def left_out(self) -> int:
        """How many options and fields are not shown."""
        asked = len(self.stored.suggestions) + len(self.stored.question.required_fields)
        return asked - len(self.options) - len(self.fields)


class InboxPage(Struct, frozen=True):
    """Open questions: those with a deadline first, then those that wait longest; `longest` is the oldest of all.

    `more` is how many come before the next page (None: this is the last).
    """

    questions: list[Question]
    longest: Question | None
    more: int | None


class TurnView(Struct, frozen=True):
    """A turn with its command line, and the end of what the engine printed."""

    turn: StoredTurn
    command: str
    outputs: list[OutputTail]

    @property
    def is_canceled(self) -> bool:
        """Whether it was ended by a cancel: it has neither an outcome of its own nor a failure."""
        return self.turn.outcome == Outcome.ERROR and self.turn.failure is None

    @property
    def outcome(self) -> str:
        """How it ended, in words."""
        if self.is_canceled:
            return "canceled"
        return _OUTCOMES.get(self.turn.outcome or "", "ended" if self.turn.ended_at else "running")

    @property
    def exit(self) -> str:
        """How its process ended, in words; empty if that says nothing."""
        code = self.turn.exit_code
        if code is None or self.is_canceled:
            return ""
        if code >= 0:
            return f"exit code {code}"
        known = {number.value: number.name for number in signal.Signals}
        return f"ended by {known.get(-code, f'signal {-code}')}"


class FileRow(Struct, frozen=True):
    """A file that the run changed."""

    file: ChangedFile
    is_artifact: bool


class RunView(Struct, frozen=True):
    """A run with all that its page shows; `earlier` is where earlier events go on (None: there are none)."""

    run: Run
    question: Question | None
    conversation: Conversation
    turns: list[TurnView]
    events: list[StoredEvent]
    earlier: int | None
    files: list[FileRow]
    gaps: list[str]

    @property
    def is_over(self) -> bool:
        """Whether the run has ended."""
        return self.run.state in ENDED


def run_list(store: Store, state: State | None, engine: str | None, before: int | None) -> RunList:
    """Read a page of runs."""
    # one more than shown tells whether there is a next page
    page = runs.summaries(store, state=state, engine=engine, limit=PAGE + 1, before=before)
    return RunList(_rows(store, page[:PAGE]), page[PAGE - 1].seq if page[PAGE:] else None)


def inbox(store: Store, skip: int) -> InboxPage:
    """Read a page of open questions, after the first `skip`."""
    page = runs.waiting_page(store, PAGE + 1, skip)
    longest = runs.waits_longest(store)
    return InboxPage(
        _questions(store, page[:PAGE]),
        next(iter(_questions(store, [longest])), None) if longest else None,
        skip + PAGE if page[PAGE:] else None,
    )


def _questions(store: Store, page: Sequence[Summary]) -> list[Question]:
    asked = ((row, runs.question(store, row.run.pending_interaction_id or "")) for row in _rows(store, page))
    return [Question(row, stored) for row, stored in asked if stored is not None]


def run_view(store: Store, run: Run, up_to: int | None, before: int | None) -> RunView:
    """Read what the page of a run shows: the turns up to `up_to`, and the events before `before` (None: the latest)."""
    stored = None
    if run.state is State.WAITING_USER:
        stored = runs.question(store, run.pending_interaction_id or "")
    said = conversation(store, run, up_to)
    events = runs.latest_events(store, run.run_id, before, MAX_EVENTS + 1)
    return RunView(
        run,
        Question(RunRow(run, run.launch.prompt), stored) if stored else None,
        said,
        [_turn(run, shown.turn) for shown in said.turns],
        events[-MAX_EVENTS:],
        events[1].id if events[MAX_EVENTS:] else None,
        [FileRow(file, is_artifact(run, file.path)) for file in files.changed(store, run.run_id)],
        files.gaps(store, run.run_id),
    )


def existing(store: Store, run_id: str) -> Run:
    """Read a run; ApiError if there is none."""
    run = runs.find(store, run_id)
    if run is None:
        raise ApiError("RUN_NOT_FOUND", f"there is no run {run_id[:100]!r}", "choose one from the list of runs")
    return run


def engines(core: Server) -> list[EngineStatus]:
    """Return what is known about each engine so far, installed ones first."""
    return sorted(core.engines.every(patience=0), key=lambda engine: engine.executable is None)


def details(event: StoredEvent) -> dict[str, Any]:
    """Return the data of an event, without what the page shows as a sentence."""
    return {
        name: value for name, value in event.as_dict().items() if name not in ("text", "prompt", "state", "turn_index")
    }


def _rows(store: Store, page: Sequence[Summary]) -> list[RunRow]:
    prompts = runs.prompts(store, [run.run_id for run in page], _PROMPT)
    return [RunRow(run, prompts.get(run.run_id, "")) for run in page]


def _turn(run: Run, turn: StoredTurn) -> TurnView:
    return TurnView(turn, command_line(turn.argv or (), MAX_WORD), outputs(traces(run.run_directory, turn.turn_index)))
