"""Runs, turns, questions and events as the store gives them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turngate.model import Mode
from turngate_reference.server.states import State


@dataclass(frozen=True, slots=True)
class Summary:
    """What lists show of a run; what is JSON in the store is data here (`None`: not known yet).

    `timeout` is in seconds: it bounds each turn, and each wait of a kept process.
    """

    seq: int
    run_id: str
    handle: str
    engine: str
    engine_version: str | None
    state: State
    cancel_requested: bool
    mode: Mode
    model: str | None
    timeout: int
    workspace: Path | None
    turn_index: int
    profile: dict[str, Any] | None
    capability: dict[str, Any] | None
    session: dict[str, Any] | None
    pending_interaction_id: str | None
    wait_deadline_at: str | None
    error: dict[str, str] | None
    created_at: str
    updated_at: str
    started_at: str | None
    ended_at: str | None


@dataclass(frozen=True, slots=True)
class Run(Summary):
    """A run, with all that is known of it."""

    run_directory: Path
    request: dict[str, Any]
    recovery: dict[str, Any] | None
    process: dict[str, Any] | None
    final_data: Any

    @property
    def cwd(self) -> Path:
        """Where the engine works."""
        return self.workspace or own_cwd(self.run_directory)

    @property
    def is_sticky(self) -> bool:
        """Whether its process is kept while it waits."""
        return self.profile is not None and self.profile["kind"] == "sticky_process"

    @property
    def artifacts(self) -> Path:
        """Where its results go: below the directory that the engine may write to."""
        return self.cwd / "artifacts" / self.handle

    @property
    def locations(self) -> dict[str, str | None]:
        """The variables that decide where the engine keeps its sessions, as they were on turn 1 (None: unset)."""
        found: dict[str, str | None] = (self.recovery or {}).get("locations", {})
        return found


@dataclass(frozen=True, slots=True)
class Waiting:
    """What tells of a run that waits whether it can be answered."""

    run_id: str
    engine: str
    engine_version: str | None
    profile: dict[str, Any] | None
    session: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class StoredQuestion:
    """What a run asks its user: `question` holds kind, prompt, options, required_fields and context.

    `request_id` is the engine's own id of a request for approval; `response` None means not answered yet.
    """

    interaction_id: str
    run_id: str
    turn_index: int
    question: dict[str, Any]
    request_id: str | None
    asked_at: str
    response: str | None
    answered_at: str | None


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """A turn; `failure` is None or {code, detail}, `argv` lacks the prompt."""

    turn_index: int
    started_at: str
    ended_at: str | None
    seconds: float | None
    argv: list[str] | None
    exit_code: int | None
    outcome: str | None
    failure: dict[str, str] | None
    repair_level: str | None


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """Something that happened to a run; ids grow, with gaps."""

    id: int
    type: str
    data: dict[str, Any]
    at: str


def own_cwd(run_directory: Path) -> Path:
    """Return where the engine works if the caller named no workspace."""
    return run_directory / "work"
