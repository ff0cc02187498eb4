"""The Flask app: what guards requests, what answers them, and how errors look."""

from flask import Flask, Response, abort, request

from turngate_reference.server.app import Server
from turngate_reference.server.web import problems
from turngate_reference.server.web.metrics import Metrics
from turngate_reference.server.web.security import Guard
from turngate_reference.server.web.streams import EventStreams
from turngate_reference.server.web.validation import MAX_BODY
from turngate_reference.server.web.views import Edge, runs, service


def create_app(core: Server, guard: Guard, streams: EventStreams, metrics: Metrics) -> Flask:
    """Make the app that answers for `core`."""
    app = Flask("turngate_reference", static_folder=None, template_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False
    app.url_map.merge_slashes = False  # a path is one of the document's or none; nothing is redirected
    metrics.watch(core, streams)
    app.extensions["turngate"] = Edge(core, streams, metrics)
    problems.register(app)
    app.before_request(lambda: guard.check(request))
    app.before_request(_bounded)
    app.after_request(_hardened)
    for module in (runs, service):
        app.register_blueprint(module.blueprint)
    return app


def _bounded() -> None:
    """Refuse a body that is too large also where nobody reads it."""
    if (request.content_length or 0) > MAX_BODY:
        abort(413)


def _hardened(response: Response) -> Response:
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Cache-Control"] = "no-store"
    return response
