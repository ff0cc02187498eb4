"""The Flask app: guards, error handlers, and a view for each operation of `openapi.yaml`."""

from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import urlencode

import msgspec
from flask import Flask, Response, abort, request
from msgspec import Struct

from turngate.decoding import convert
from turngate.sanitize import visible
from turngate_reference.server.app import Server
from turngate_reference.server.orchestrator import workspace_files
from turngate_reference.server.requests import ApiError, ContinueRequest, IdempotencyKey, ReplyRequest, RunRequest
from turngate_reference.server.store import files, runs
from turngate_reference.server.store.runs import Accepted, Run
from turngate_reference.server.web import openapi, problems, run_files
from turngate_reference.server.web.metrics import CONTENT_TYPE, Metrics
from turngate_reference.server.web.openapi import MAX_BODY, Operation, arguments
from turngate_reference.server.web.page import routes
from turngate_reference.server.web.problems import as_bytes
from turngate_reference.server.web.security import RequestCheck
from turngate_reference.server.web.streams import EventStreams
from turngate_reference.states import ENDED, State


class Views(Struct, frozen=True):
    """The answers of one server; data becomes JSON with the status of the operation's first documented response."""

    core: Server
    streams: EventStreams
    metrics: Metrics

    def create_run(self, body: dict[str, Any], idempotency_key: str | None = None) -> Response:
        """Create a run."""
        accepted = self.core.commands.create(RunRequest.of(body), IdempotencyKey.of(idempotency_key, body))
        headers = {"Location": accepted.links["self"]}
        return Response(as_bytes(accepted), 202, headers, mimetype="application/json")

    def list_runs(self, limit: int, before: int | None = None, **filters: str) -> dict[str, Any]:
        """List runs."""
        state = State(filters["state"]) if "state" in filters else None
        # one more than requested shows whether there is a next page
        page = runs.summaries(
            self.core.store, state=state, engine=filters.get("engine"), limit=limit + 1, before=before
        )
        following = None
        if page[limit:]:
            following = f"{request.path}?{urlencode(filters | {'limit': limit, 'before': page[limit - 1].seq})}"
        return {"runs": [run.to_json() for run in page[:limit]], "next": following}

    def get_run(self, run_id: str) -> dict[str, Any]:
        """Show a run."""
        return self._run(run_id).to_json()

    def continue_run(self, run_id: str, body: dict[str, Any], idempotency_key: str | None = None) -> Accepted:
        """Continue a run that has ended in its session."""
        key = IdempotencyKey.of(idempotency_key, body)
        return self.core.commands.continue_run(run_id, convert(body, ContinueRequest), key)

    def cancel_run(self, run_id: str) -> Accepted:
        """Cancel a run."""
        return self.core.commands.cancel(run_id)

    def list_turns(self, run_id: str) -> dict[str, Any]:
        """List the turns of a run."""
        return {"turns": runs.turns(self.core.store, self._run(run_id).run_id)}

    def list_files(self, run_id: str) -> dict[str, Any]:
        """List the files that a run changed."""
        run = self._run(run_id)
        listed = [
            {**msgspec.to_builtins(file), "is_artifact": workspace_files.is_artifact(run, file.path)}
            for file in files.changed(self.core.store, run_id)
        ]
        return {"files": listed, "gaps": files.gaps(self.core.store, run_id)}

    def get_file(self, run_id: str, path: str) -> Response:
        """Download a file that a run changed."""
        return run_files.download(self.core.store, self._run(run_id), path)

    def get_patch(self, run_id: str, path: str) -> Response:
        """Show what changed in a text file."""
        file = run_files.patch(self.core.store, self._run(run_id), path)
        lines = "".join(f"{line}\n" for line in file.patch)
        return Response(f"--- {visible(path)}\n+++ {visible(path)}\n{lines}", content_type="text/plain; charset=utf-8")

    def get_interaction(self, run_id: str) -> dict[str, Any]:
        """Show the open question."""
        run = self._run(run_id)
        question = runs.question(self.core.store, run.pending_interaction_id or "")
        pending = None
        if run.state is State.WAITING_USER and question is not None:
            asked = msgspec.to_builtins(question.question)
            pending = {"interaction_id": question.interaction_id, **asked, "asked_at": question.asked_at}
        unsent = runs.unsent_reply(self.core.store, run_id)
        return {"state": run.state, "pending": pending, "unsent_reply": unsent}

    def reply_to_interaction(self, run_id: str, body: dict[str, Any], idempotency_key: str | None = None) -> Accepted:
        """Answer the open question."""
        return self.core.commands.reply(run_id, convert(body, ReplyRequest), IdempotencyKey.of(idempotency_key, body))

    def stream_events(self, run_id: str, last_event_id: int = 0) -> Response:
        """Stream the events of a run."""
        store, ended = self.core.store, self._run(run_id).state in ENDED
        if ended and not runs.events(store, run_id, last_event_id, 1):
            return Response(status=204)
        if request.method == "HEAD":
            return Response(mimetype="text/event-stream")
        place, gone = self.streams.enter(), request.environ.get("waitress.client_disconnected", bool)
        events = self.streams.follow(store, run_id, last_event_id, ended=ended, gone=gone)
        response = Response(events, mimetype="text/event-stream")
        response.call_on_close(partial(self.streams.leave, place))
        response.headers["X-Accel-Buffering"] = "no"
        return response

    def list_engines(self) -> dict[str, Any]:
        """List the engines."""
        return {"engines": msgspec.to_builtins(self.core.engines.every())}

    def get_health(self) -> dict[str, Any]:
        """Return that the server is alive."""
        return {"status": "ok"}

    def get_readiness(self) -> dict[str, Any]:
        """Whether runs are taken."""
        if why := self.core.obstacle():
            raise ApiError("NOT_READY", why, "retry later")
        return {"status": "ready"}

    def get_metrics(self) -> Response:
        """Return figures for Prometheus."""
        return Response(self.metrics.text(self.core, self.streams), content_type=CONTENT_TYPE)

    def get_document(self) -> Response:
        """Return the OpenAPI document."""
        return Response(openapi.as_json(), mimetype="application/json")

    def _run(self, run_id: str) -> Run:
        run = runs.find(self.core.store, run_id)
        if run is None:
            raise ApiError("RUN_NOT_FOUND", f"no run {run_id[:100]!r}", "list all runs: GET /v1/runs")
        return run


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
