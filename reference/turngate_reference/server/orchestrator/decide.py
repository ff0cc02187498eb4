"""Decides what happens to a run after a turn, and which outcome or error takes precedence."""

import json
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from turngate import AdapterTurnResult, Interaction, Mode, Outcome, Reported
from turngate.turn.read import read_answer
from turngate_reference.engine.attempt import stderr_note
from turngate_reference.server.orchestrator.kept_states import KeptCause, KeptEvent
from turngate_reference.server.output_schema.checker import ChecksBusyError, SchemaTooCostlyError
from turngate_reference.server.store.files import TurnChanges
from turngate_reference.server.store.runs import ProcessNote, Run, RunSession
from turngate_reference.server.transports.events import Lost
from turngate_reference.states import TARGETS, Cause, RunError, RunErrorCode, State

MAX_FINAL_DATA = 4 * 2**20
# returns what in the data violates a schema, like `SchemaChecker.data_flaw`
DataFlaw = Callable[[Any, dict[str, Any]], str | None]
_AFTER_REFUSAL = Interaction(
    "open_text", "The engine ended its turn after an action was refused. What should it do instead?"
)


class Decision(Struct, frozen=True):
    """What moves a run after a turn, or ends it outside of one, with the details."""

    cause: Cause
    error: RunError | None = None
    final_data: Any = None
    interaction: Interaction | None = None

    @property
    def state(self) -> State:
        """The state of the run after it."""
        return TARGETS[self.cause]


class TurnResult(Struct, frozen=True):
    """The result of a turn, apart from the state of its run (`exit_code` None: the engine has none).

    `session_seen` says whether the engine's session store held the session right after the turn that made it. `process`
    is the note of the process that still exists, and `files` what the turn changed (None: not known). `reported` is
    what the engine reported beside the answer.
    """

    seconds: float | None = None
    outcome: str = Outcome.ERROR
    exit_code: int | None = None
    repair_level: str | None = None
    session: RunSession | None = None
    session_seen: bool | None = None
    process: ProcessNote | None = None
    files: TurnChanges | None = None
    reported: tuple[Reported, ...] = ()


def decide(
    result: AdapterTurnResult,
    mode: Mode,
    *,
    can_wait: bool,
    output_schema: dict[str, Any] | None,
    data_flaw: DataFlaw,
) -> Decision:
    """Decide; `can_wait` says whether the run could take a reply after this turn.

    This takes as long as `data_flaw` if there is an output schema.
    """
    if result.outcome is Outcome.ERROR:
        code, _, detail = (result.failure_reason or "").partition(": ")
        is_engines = code != RunErrorCode.ENVELOPE_INVALID
        return failed(RunErrorCode(code), detail + (stderr_note(result.stderr) if is_engines else ""))
    if result.interaction is not None:
        if mode is Mode.AUTO:
            detail = f"the agent asked in mode auto: {result.interaction.prompt[:500]}"
            return failed(RunErrorCode.ASK_USER_IN_AUTO, detail)
        if not can_wait:
            return failed(
                RunErrorCode.INTERACTION_PROCESS_LOST, "the agent asked, but no process is left to wait for the reply"
            )
        return Decision(Cause.ASKED, interaction=result.interaction)
    return _decide_final(result.final_data, output_schema, data_flaw)


def _decide_final(final_data: Any, output_schema: dict[str, Any] | None, data_flaw: DataFlaw) -> Decision:
    size = len(json.dumps(final_data))
    if size > MAX_FINAL_DATA:
        detail = f"final_data has {size} bytes; the limit is {MAX_FINAL_DATA}"
        return failed(RunErrorCode.FINAL_DATA_INVALID, detail)
    try:
        flaw = None if output_schema is None else data_flaw(final_data, output_schema)
    except SchemaTooCostlyError as costly:
        return failed(RunErrorCode.SCHEMA_TOO_COSTLY, str(costly))
    except ChecksBusyError:  # turns wait as long as it takes, unless the server ends
        return INTERRUPTED
    if flaw:
        return failed(RunErrorCode.FINAL_DATA_INVALID, flaw)
    return Decision(Cause.FINISHED, final_data=final_data)


def decide_kept(
    run: Run, final_text: str | None, *, declined: bool, data_flaw: DataFlaw
) -> tuple[Decision, TurnResult]:
    """Decide after a turn of a kept process that reported no failure.

    Some engines end a turn without a text when the user has declined an action.
    """
    result = read_answer(final_text, run.execution_mode)
    if declined and run.execution_mode is Mode.INTERACTIVE and result.outcome is Outcome.ERROR:
        result = AdapterTurnResult(Outcome.ASK_USER, interaction=_AFTER_REFUSAL)
    schema = run.launch.output_schema
    decision = decide(result, run.execution_mode, can_wait=True, output_schema=schema, data_flaw=data_flaw)
    return decision, TurnResult(None, result.outcome, None, result.repair_level)


def failed(code: RunErrorCode, detail: str) -> Decision:
    """Fail a run."""
    return Decision(code.cause, error=RunError(code.value, detail))


def ours(error: Exception) -> Decision:
    """Fail a run because of an error in turngate."""
    return failed(RunErrorCode.ORCHESTRATOR_ERROR, f"{type(error).__name__}: {error}")


def fails_turn(end: KeptEvent | None, *, has_asked: bool) -> Decision:
    """Decide for a turn whose process is gone; `end` is what began its end, `has_asked`: the user was asked before."""
    match end:
        case KeptCause.TOO_LATE:
            return failed(RunErrorCode.TURN_TIMEOUT, "the engine was still running at its deadline")
        case Lost(detail, ours=True):
            return failed(RunErrorCode.ORCHESTRATOR_ERROR, detail)
        case Lost(detail):
            return failed(RunErrorCode.INTERACTION_PROCESS_LOST if has_asked else RunErrorCode.ENGINE_FAILED, detail)
    return INTERRUPTED


def fails_waiting(end: KeptEvent | None, seconds: int) -> Decision:
    """Decide for a run that waits for a reply, which can't come any more; the wait may last this many seconds."""
    if end is KeptCause.TOO_LATE:
        return failed(RunErrorCode.INTERACTION_WAIT_TIMEOUT, f"no reply came within {seconds} seconds")
    return failed(RunErrorCode.INTERACTION_PROCESS_LOST, end.detail) if isinstance(end, Lost) else UNANSWERABLE


INTERRUPTED = failed(RunErrorCode.ORCHESTRATOR_RESTART_INTERRUPTED, "the server stopped during the turn")
UNANSWERABLE = failed(RunErrorCode.INTERACTION_PROCESS_LOST, "the server stopped, and with it the waiting process")
