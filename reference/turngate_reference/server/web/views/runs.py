"""Runs, their turns and questions, and their events."""

from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, Response, request

from turngate_reference.server.orchestrator.documents import interaction_document, run_document
from turngate_reference.server.states import ENDED, State
from turngate_reference.server.store import runs
from turngate_reference.server.web.streams import EventStream
from turngate_reference.server.web.validation import body, header, query
from turngate_reference.server.web.views import edge, json_answer, run_or_404

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
    return json_answer({"runs": [run_document(run) for run in shown], "next": following})


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
    return json_answer({"turns": runs.turns(edge().core.store, run_id)})


INTERACTION = "/v1/runs/<run_id>/interaction"


@blueprint.get(INTERACTION)
def show_question(run_id: str) -> Response:
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


EVENTS = "/v1/runs/{run_id}/events"


@blueprint.get("/v1/runs/<run_id>/events")
def follow(run_id: str) -> Response:
    """EventStream the events of a run."""
    asked = query(EVENTS).get("last_event_id", 0)
    seen = header(EVENTS, "get", "Last-Event-ID")
    after: int = asked if seen is None else seen
    store = edge().core.store
    ended = run_or_404(run_id).state in ENDED
    if ended and not runs.events(store, run_id, after, 1):
        return Response(status=204)
    if request.method == "HEAD":
        return Response(mimetype="text/event-stream")
    stream = EventStream(edge().streams, store, run_id, request.environ.get("waitress.client_disconnected", bool))
    response = Response(stream.lines(after, ended=ended), mimetype="text/event-stream")
    response.call_on_close(stream.close)
    response.headers["X-Accel-Buffering"] = "no"
    return response
