"""What the API shows of runs, turns and questions (shapes as in `openapi.yaml`)."""

from typing import Any

from turngate_reference.server.states import State
from turngate_reference.server.store.rows import Run, StoredQuestion, StoredTurn, Summary


def links(run_id: str) -> dict[str, str]:
    """Return the paths of all that belongs to a run."""
    base = f"/v1/runs/{run_id}"
    return {
        "self": base,
        "interaction": f"{base}/interaction",
        "reply": f"{base}/interaction/reply",
        "cancel": f"{base}/cancel",
        "turns": f"{base}/turns",
        "events": f"{base}/events",
    }


def run_summary(run: Summary) -> dict[str, Any]:
    """Show a run without its final data."""
    return {
        "run_id": run.run_id,
        "handle": run.handle,
        "engine": run.engine,
        "engine_version": run.engine_version,
        "execution_mode": run.mode.value,
        "model": run.model,
        "state": run.state.value,
        "turn_index": run.turn_index,
        "error": run.error,
        "interactive_profile": run.profile,
        "resume_capability": run.capability,
        "engine_session_handle": run.session,
        "pending_interaction_id": run.pending_interaction_id,
        "wait_deadline_at": run.wait_deadline_at,
        "cancel_requested": run.cancel_requested,
        "workspace": str(run.workspace) if run.workspace else None,
        "session_timeout_sec": run.timeout,
        "created_at": run.created_at,
        "updated_at": run.updated_at,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "links": links(run.run_id),
    }


def run_document(run: Run) -> dict[str, Any]:
    """Show a run."""
    return run_summary(run) | {"final_data": run.final_data}


def interaction_document(run: Run, question: StoredQuestion | None) -> dict[str, Any]:
    """Show what a run waits for; `pending` is null unless it waits."""
    waits = run.state is State.WAITING_USER and question is not None
    pending = (
        {"interaction_id": question.interaction_id, **question.question, "asked_at": question.asked_at}
        if waits and question
        else None
    )
    return {"state": run.state.value, "pending": pending}


def turn_document(turn: StoredTurn) -> dict[str, Any]:
    """Show a turn."""
    return {
        "turn_index": turn.turn_index,
        "started_at": turn.started_at,
        "ended_at": turn.ended_at,
        "seconds": turn.seconds,
        "outcome": turn.outcome,
        "failure": turn.failure,
        "repair_level": turn.repair_level,
        "exit_code": turn.exit_code,
        "argv": turn.argv,
    }
