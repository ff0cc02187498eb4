"""What the API shows of runs and questions (shapes as in `openapi.yaml`)."""

from typing import Any

import msgspec

from turngate_reference.server.states import State
from turngate_reference.server.store.rows import Run, StoredQuestion, Summary

_API_NAMES = {
    "profile": "interactive_profile",
    "capability": "resume_capability",
    "session": "engine_session_handle",
}
_UNSHOWN = frozenset({"seq", "run_directory", "request", "recovery", "process"})


def links(run_id: str) -> dict[str, str]:
    """Return the paths of all that belongs to a run."""
    base = f"/v1/runs/{run_id}"
    below = {name: f"{base}/{name}" for name in ("interaction", "cancel", "turns", "events")}
    return {"self": base, "reply": f"{base}/interaction/reply", **below}


def run_document(run: Summary) -> dict[str, Any]:
    """Show a run, without its final data if `run` lacks them."""
    shown = msgspec.to_builtins(run, enc_hook=str)
    document = {_API_NAMES.get(name, name): value for name, value in shown.items() if name not in _UNSHOWN}
    return document | {"links": links(run.run_id)}


def interaction_document(run: Run, question: StoredQuestion | None) -> dict[str, Any]:
    """Show what a run waits for; `pending` is null unless it waits."""
    pending = None
    if run.state is State.WAITING_USER and question is not None:
        pending = {"interaction_id": question.interaction_id, **question.question, "asked_at": question.asked_at}
    return {"state": run.state, "pending": pending}
