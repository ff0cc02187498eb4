"""Runs and their turns."""

from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, Response

from turngate_reference.orchestrator.documents import run_document, run_summary, turn_document
from turngate_reference.states import State
from turngate_reference.store import runs
from turngate_reference.web.validation import body, header, query
from turngate_reference.web.views import edge, json_answer, run_or_404

blueprint = Blueprint("runs", __name__)
RUNS = "/v1/runs"


@blueprint.post(RUNS)
def create() -> Response:
    """Create a run."""
    key = header(RUNS, "post", "Idempotency-Key")
    told = edge().core.commands.create(body("CreateRun"), key)
    response = json_answer(told, 202)
    response.headers["Location"] = told["links"]["self"]
    return response


@blueprint.get(RUNS)
def page() -> Response:
    """List runs."""
    asked = {"limit": 50} | query(RUNS)
    limit = asked.pop("limit")
    chosen: dict[str, Any] = asked | ({"state": State(asked["state"])} if "state" in asked else {})
    # one more than asked for tells whether there is a next page
    found = runs.summaries(edge().core.store, limit=limit + 1, **chosen)
    shown = found[:limit]
    following = f"{RUNS}?{urlencode(asked | {'limit': limit, 'before': shown[-1].seq})}" if found[limit:] else None
    return json_answer({"runs": [run_summary(run) for run in shown], "next": following})


@blueprint.get(f"{RUNS}/<run_id>")
def show(run_id: str) -> Response:
    """Show a run."""
    return json_answer(run_document(run_or_404(run_id)))


@blueprint.post(f"{RUNS}/<run_id>/cancel")
def cancel(run_id: str) -> Response:
    """Cancel a run."""
    return json_answer(edge().core.commands.cancel(run_id), 202)


@blueprint.get(f"{RUNS}/<run_id>/turns")
def turns(run_id: str) -> Response:
    """List the turns of a run."""
    run_or_404(run_id)
    return json_answer({"turns": [turn_document(turn) for turn in runs.turns(edge().core.store, run_id)]})
