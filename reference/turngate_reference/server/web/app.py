"""The Flask app: guards, views and error handlers."""

from collections.abc import Callable
from functools import partial
from typing import Any

from flask import Flask, Response, abort, request

from turngate_reference.server.app import Server
from turngate_reference.server.web import openapi, problems
from turngate_reference.server.web.metrics import Metrics
from turngate_reference.server.web.openapi import MAX_BODY, Operation, arguments
from turngate_reference.server.web.page import routes
from turngate_reference.server.web.security import RequestCheck
from turngate_reference.server.web.streams import EventStreams
from turngate_reference.server.web.views import Views


def create_app(core: Server, guard: RequestCheck, streams: EventStreams, metrics: Metrics) -> Flask:
    """Make the app for `core`: a route for each operation of `openapi.yaml`, and the pages for a browser."""
    app = Flask("turngate_reference", static_folder=None, template_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = app.config["MAX_FORM_MEMORY_SIZE"] = MAX_BODY
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False
    app.url_map.merge_slashes = False  # only paths of the document exist; nothing is redirected
    problems.register(app)
    app.before_request(lambda: guard.check(request))
    app.before_request(_bounded)
    app.after_request(_hardened)
    views = Views(core, streams, metrics)
    for operation in openapi.operations():
        path = operation.path.replace("{", "<").replace("}", ">")
        view = partial(_answer, operation, getattr(views, operation.name))
        app.add_url_rule(path, operation.name, view, methods=[operation.method])
    app.register_blueprint(routes.blueprint(core, streams, guard))
    return app


def _answer(operation: Operation, view: Callable[..., Any], **path: str) -> Response:
    """Answer with what the view returns: a response, or the data of the documented answer."""
    value = view(**path, **arguments(operation))
    if isinstance(value, Response):
        return value
    return Response(problems.as_bytes(value), int(next(iter(operation.responses))), mimetype="application/json")


def _bounded() -> None:
    """Reject a body that is too large even if no view reads it."""
    if (request.content_length or 0) > MAX_BODY:
        abort(413)


def _hardened(response: Response) -> Response:
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Cache-Control"] = "no-store"
    return response
