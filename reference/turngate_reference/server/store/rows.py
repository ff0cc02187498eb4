"""Runs, turns, questions and events as the store returns them."""

from pathlib import Path
from typing import Any

from msgspec import Struct

from turngate import Mode
from turngate_reference.server.states import State


class Summary(Struct, frozen=True, rename={"mode": "execution_mode", "timeout": "session_timeout_sec"}):
    """The columns of a run that lists show; JSON in the store is data here (`None`: not known yet).

    `timeout` is in seconds: the limit of each turn, and of each wait of a sticky process.
    """

    seq: int
    run_id: str
    handle: str
    engine: str
    engine_version: str | None
    mode: Mode
    model: str | None
    state: State
    turn_index: int
    error: dict[str, str] | None
    profile: dict[str, Any] | None
    capability: dict[str, Any] | None
    session: dict[str, Any] | None
    pending_interaction_id: str | None
    wait_deadline_at: str | None
    cancel_requested: bool
    workspace: Path | None
    timeout: int
    created_at: str
    updated_at: str
    started_at: str | None
    ended_at: str | None

    @property
    def links(self) -> dict[str, str]:
        """The paths of the run's files."""
        base = f"/v1/runs/{self.run_id}"
        below = {name: f"{base}/{name}" for name in ("interaction", "cancel", "turns", "events")}
        return {"self": base, "reply": f"{base}/interaction/reply", **below}

    @property
    def is_sticky(self) -> bool:
        """Whether its process stays alive while it waits."""
        return self.profile is not None and self.profile["kind"] == "sticky_process"

    @property
    def is_resumable(self) -> bool:
        """Whether it waits without a process."""
        return self.profile is not None and self.profile["kind"] == "resumable"

    @property
    def warm_wait_sec(self) -> int:
        """For how many seconds it may keep its process after asking; 0: it doesn't."""
        return self.profile.get("warm_wait_sec", 0) if self.profile and self.is_resumable else 0


class ProcessNote(Struct, frozen=True, omit_defaults=True):
    """A process of a run that may still exist, noted so that it can be ended even if the server dies.

    `tag` marks its tree. `pid` and `started_at` (in seconds since the epoch) are None until it has started, and
    `transport_session_id` until a sticky process has told it. `terminal` says that `turngate resume` started it. `kept`
    is an earlier process that the run may still have.
    """

    tag: str
    pid: int | None = None
    started_at: float | None = None
    transport_session_id: str | None = None
    terminal: bool = False
    kept: "ProcessNote | None" = None


class Run(Summary, frozen=True):
    """A run with all its columns."""

    run_directory: Path
    request: dict[str, Any]
    recovery: dict[str, Any] | None
    process: ProcessNote | None
    final_data: Any

    @property
    def cwd(self) -> Path:
        """Where the engine works."""
        return self.workspace or own_cwd(self.run_directory)

    @property
    def artifacts(self) -> Path:
        """Where its results go: below the directory that the engine may write to."""
        return self.cwd / "artifacts" / self.handle

    @property
    def needs_process(self) -> bool:
        """Whether its next turn can only run in the process that it has."""
        return self.process is not None and not self.is_resumable

    @property
    def locations(self) -> dict[str, str | None]:
        """The variables that decide where the engine stores its sessions, as they were on turn 1 (None: unset)."""
        locations: dict[str, str | None] = (self.recovery or {}).get("locations", {})
        return locations


class StoredQuestion(Struct, frozen=True):
    """A question of a run to its user: `question` holds kind, prompt, options, required_fields and context.

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

    @property
    def suggestions(self) -> list[str]:
        """The options; a question for a yes or a no has these two if the agent suggests nothing."""
        options: list[str] = self.question["options"]
        return options or (["yes", "no"] if self.question["kind"] == "confirm" else [])


class StoredTurn(Struct, frozen=True):
    """A turn as the API shows it; `failure` is None or {code, detail}, `argv` lacks the prompt."""

    turn_index: int
    started_at: str
    ended_at: str | None
    seconds: float | None
    outcome: str | None
    failure: dict[str, str] | None
    repair_level: str | None
    exit_code: int | None
    argv: list[str] | None


class StoredEvent(Struct, frozen=True):
    """Something that happened to a run; ids grow, with gaps."""

    id: int
    type: str
    data: dict[str, Any]
    at: str


def own_cwd(run_directory: Path) -> Path:
    """Return where the engine works if the caller did not name a workspace."""
    return run_directory / "work"
