"""Runs followed as server-sent events."""

from flask import Blueprint, Response, request

from turngate_reference.states import ENDED
from turngate_reference.store import runs
from turngate_reference.web.streams import Stream
from turngate_reference.web.validation import header, query
from turngate_reference.web.views import edge, run_or_404

blueprint = Blueprint("events", __name__)
EVENTS = "/v1/runs/{run_id}/events"


@blueprint.get("/v1/runs/<run_id>/events")
def follow(run_id: str) -> Response:
    """Stream the events of a run."""
    asked = query(EVENTS).get("last_event_id", 0)
    seen = header(EVENTS, "get", "Last-Event-ID")
    after: int = asked if seen is None else seen
    store = edge().core.store
    ended = run_or_404(run_id).state in ENDED
    if ended and not runs.events(store, run_id, after, 1):
        return Response(status=204)
    if request.method == "HEAD":
        return Response(mimetype="text/event-stream")
    stream = Stream(edge().streams, store, run_id, request.environ.get("waitress.client_disconnected", bool))
    response = Response(stream.lines(after, ended=ended), mimetype="text/event-stream")
    response.call_on_close(stream.close)
    response.headers["X-Accel-Buffering"] = "no"
    return response
