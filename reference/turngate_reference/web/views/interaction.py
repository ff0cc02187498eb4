"""What a run asks its user."""

from flask import Blueprint, Response

from turngate_reference.orchestrator.documents import interaction_document
from turngate_reference.store import runs
from turngate_reference.web.validation import body, header
from turngate_reference.web.views import edge, json_answer, run_or_404

blueprint = Blueprint("interaction", __name__)
INTERACTION = "/v1/runs/<run_id>/interaction"


@blueprint.get(INTERACTION)
def show(run_id: str) -> Response:
    """Show the open question."""
    run = run_or_404(run_id)
    pending = run.pending_interaction_id
    question = runs.question(edge().core.store, pending) if pending else None
    return json_answer(interaction_document(run, question))


@blueprint.post(f"{INTERACTION}/reply")
def reply(run_id: str) -> Response:
    """Answer the open question."""
    key = header("/v1/runs/{run_id}/interaction/reply", "post", "Idempotency-Key")
    return json_answer(edge().core.commands.reply(run_id, body("Reply"), key), 202)
