"""The paths of the HTTP API; each module has those of one noun."""

from typing import Any

from flask import Response, current_app
from msgspec import Struct

from turngate_reference.server.api_errors import ApiError
from turngate_reference.server.app import Server
from turngate_reference.server.store.rows import Run
from turngate_reference.server.store.runs import find
from turngate_reference.server.web.metrics import Metrics
from turngate_reference.server.web.problems import as_bytes
from turngate_reference.server.web.streams import EventStreams


class Edge(Struct, frozen=True):
    """What views work with."""

    core: Server
    streams: EventStreams
    metrics: Metrics


def edge() -> Edge:
    """Return what belongs to the app that answers now."""
    found: Edge = current_app.extensions["turngate"]
    return found


def run_or_404(run_id: str) -> Run:
    """Find a run; Refusal if there is none."""
    run = find(edge().core.store, run_id)
    if run is None:
        raise ApiError("RUN_NOT_FOUND", f"there is no run {run_id[:100]!r}", "GET /v1/runs lists all")
    return run


def json_answer(value: Any, status: int = 200) -> Response:
    """Answer with JSON."""
    return Response(as_bytes(value), status, mimetype="application/json")
