"""The server itself, and the engines of its machine."""

from flask import Blueprint, Response

from turngate_reference.server.api_errors import ApiError
from turngate_reference.server.web import openapi
from turngate_reference.server.web.metrics import CONTENT_TYPE
from turngate_reference.server.web.views import edge, json_answer

blueprint = Blueprint("service", __name__)


@blueprint.get("/healthz")
def health() -> Response:
    """Return that the server runs."""
    return json_answer({"status": "ok"})


@blueprint.get("/readyz")
def readiness() -> Response:
    """Return whether runs are taken."""
    if not edge().core.ready:
        raise ApiError("NOT_READY", "the server is starting or ending", "try again later")
    return json_answer({"status": "ready"})


@blueprint.get("/metrics")
def metrics() -> Response:
    """Give figures for Prometheus."""
    return Response(edge().metrics.text(), content_type=CONTENT_TYPE)


@blueprint.get("/openapi.json")
def document() -> Response:
    """Return the OpenAPI document."""
    return Response(openapi.as_json(), mimetype="application/json")


@blueprint.get("/v1/engines")
def every() -> Response:
    """List the engines."""
    return json_answer({"engines": edge().core.engines.every()})
