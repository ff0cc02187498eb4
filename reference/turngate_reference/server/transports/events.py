"""The request to open a kept process, the events that it reports, and the calls that it takes."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct

from turngate import EngineContract, Mode, Reported


class OpenRequest(Struct, frozen=True):
    """A process to start: `env` is complete, `tag` marks its whole tree, `traces` is the folder of its traces.

    No two processes may have the same `tag`, since all that carry it are ended together. `options` are the caller's,
    as for a headless turn; those that the contract does not name for a kept process are refused. `traces` gets
    `stderr`, and in `protocol` all lines in both directions, both within limits.
    """

    executable: Path
    contract: EngineContract
    cwd: Path
    env: Mapping[str, str]
    mode: Mode
    tag: str
    traces: Path
    model: str | None = None
    options: tuple[str, ...] = ()


class Opened(Struct, frozen=True):
    """The process is ready for a prompt; in mode interactive, asking is on. `session_id` None: not known yet.

    `started_at` is the start time of the process in seconds since the epoch, as reported by psutil; `argv` are the
    arguments after the executable.
    """

    pid: int
    started_at: float
    session_id: str | None
    argv: tuple[str, ...]


class PromptSent(Struct, frozen=True):
    """The prompt is being sent: until this event, the engine has got nothing of it."""


class AgentText(Struct, frozen=True):
    """The agent said something; texts of a turn come in order, whole or in pieces."""

    text: str


class TurnEnded(Struct, frozen=True):
    """A turn ended: with the agent's last text (None: there was none), or with a `failure` that it reported.

    `declined` says that the user declined an action in this turn: some engines then end it without a text.
    """

    final_text: str | None
    failure: str | None
    session_id: str | None
    declined: bool


class PermissionAsked(Struct, frozen=True):
    """The engine asks for permission; `options` are its one-time choices, `context` is the action.

    Requests are reported one at a time, each after the last decision. A request is void when its turn ends. One that
    arrives while no turn runs is refused without being reported.
    """

    request_id: str
    prompt: str
    options: tuple[str, ...]
    context: Mapping[str, Any]


class Lost(Struct, frozen=True):
    """The process can't continue, and why. Only `Gone` follows, since the whole process tree is being ended.

    `ours` says that the engine is not to blame: turngate refused to pass something on, or failed itself.
    """

    detail: str
    ours: bool = False


class Gone(Struct, frozen=True):
    """No process is left; `exit_code` is None if it was never started or not reaped. This is the last event."""

    exit_code: int | None


# `Reported`: something that the engine reports beside the answer of the present turn, or of the next one
ProcessEvent: TypeAlias = Opened | PromptSent | AgentText | Reported | TurnEnded | PermissionAsked | Lost | Gone
Listener: TypeAlias = Callable[[ProcessEvent], None]


class Host:
    """Where kept processes live; this one keeps none. A call for a run that has no process is ignored."""

    def open(self, run_id: str, request: OpenRequest, listener: Listener) -> None:
        """Start a process for a run; ValueError if the run has one already, or no process is started any more."""
        raise ValueError(run_id, request, listener)

    def prompt(self, run_id: str, text: str) -> None:
        """Run the next turn in the same process."""

    def decide(self, run_id: str, request_id: str, option: str) -> None:
        """Answer the open permission request with one of its options; one that is no longer open is ignored."""

    def end(self, run_id: str) -> None:
        """End the whole tree of a run's process; `Gone` reports that it has ended."""
