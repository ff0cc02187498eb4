"""The paths that a browser opens. They use the commands and the store of the API, and answer with HTML.

They aren't in `openapi.yaml`, since they are made for people and may change at any time. Programs should use the API.
A form becomes the request of the API that it stands for.
"""

import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from flask import Blueprint, Response, make_response, redirect, render_template, request, url_for
from flask.sansio.blueprints import BlueprintSetupState
from jinja2 import StrictUndefined
from msgspec import Struct
from werkzeug.exceptions import NotFound
from werkzeug.wrappers import Response as AnyResponse

from turngate import engine_names, strict_json
from turngate.decoding import convert
from turngate_reference.access import LoginCodes
from turngate_reference.server.app import Server
from turngate_reference.server.requests import ApiError, ContinueRequest, IdempotencyKey, ReplyRequest, RunRequest
from turngate_reference.server.store import runs
from turngate_reference.server.store.runs import StoredQuestion
from turngate_reference.server.web import openapi, problems, run_files
from turngate_reference.server.web.openapi import event_id
from turngate_reference.server.web.page import content, conversation, display_text, markdown
from turngate_reference.server.web.security import PAGE, RequestCheck
from turngate_reference.server.web.streams import EventStreams
from turngate_reference.states import State

_TEXTS = ("engine", "prompt", "execution_mode", "model", "workspace", "interactive_profile", "skill")
_SECONDS = frozenset({"session_timeout_sec"})
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Frame-Options": "DENY",
    # a form sent under `no-referrer` would not state its origin
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_VOID = "This address was used before, or is too old. turngate serve --print-link prints a new one."
_CLOSED = frozenset({"NOT_WAITING", "INTERACTION_STALE"})
_FILTERS = {
    "shown": display_text.displayed,
    "whole": display_text.whole,
    "sentence": display_text.sentence,
    "size": display_text.size,
    "as_json": display_text.as_json,
    "moment": display_text.moment,
    "details": content.details,
    "heading": conversation.heading,
    "titled": conversation.titled,
    "markdown": markdown.as_html,
    "label": lambda state: State(state).label,
    "why": lambda code: openapi.run_errors()[code].replace("`", ""),
}


def run_request(form: Mapping[str, str]) -> dict[str, Any]:
    """Return the request that creates a run, without the fields that were left empty; ApiError if it is invalid."""
    # a blank prompt is refused as such, and not as a field that is missing
    filled = {name: text for name, text in _texts(form) if text.strip() or name == "prompt"}
    request: dict[str, Any] = {name: filled[name] for name in _TEXTS if name in filled}
    if "engine_options" in filled:
        request["engine_options"] = [line for line in filled["engine_options"].split("\n") if line]
    for name in _SECONDS & filled.keys():
        request[name] = openapi.number(filled[name].strip())
    if "output_schema" in filled:
        request["output_schema"] = _schema(filled["output_schema"])
    _check("CreateRun", request)
    return request


def reply_request(form: Mapping[str, str], question: StoredQuestion | None) -> dict[str, Any]:
    """Return the request that replies to a question; ApiError if it is invalid.

    An option is sent as its number, so that it reaches the engine unaltered. Named fields become lines.
    """
    sent = dict(_texts(form))
    names = question.question.required_fields if question else ()
    options = question.suggestions if question else ()
    parts = [_numbered(options, sent["option"])] if "option" in sent else []
    fields = ((name, sent.get(f"field-{number}", "")) for number, name in enumerate(names))
    parts += [f"{name}: {value}" for name, value in fields if value.strip()]
    request = {
        "interaction_id": sent.get("interaction_id", ""),
        "response": sent["text"] if "text" in sent else "\n".join(parts),
    }
    _check("Reply", request)
    return request


def idempotency_key(form: Mapping[str, str], request: dict[str, Any]) -> IdempotencyKey | None:
    """Return a key that only the same form with the same content repeats, as on a double click."""
    text = json.dumps([form.get("form_id", ""), request])
    return IdempotencyKey.of(f"page-{hashlib.sha256(text.encode()).hexdigest()}", request)


def _texts(form: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Return the fields of a form; browsers send a line break as two characters."""
    return ((name, text.replace("\r\n", "\n")) for name, text in form.items())


def _numbered(options: Sequence[str], number: str) -> str:
    """Return the option with this number, or the number itself if unknown, since its question is closed."""
    is_known = number.isascii() and number.isdecimal() and len(number) < 6 and int(number) < len(options)  # noqa: PLR2004
    return options[int(number)] if is_known else f"option {number}"


def _schema(text: str) -> Any:
    try:
        return strict_json.parse(text)
    except (ValueError, RecursionError) as wrong:
        raise ApiError("INVALID_REQUEST", f"the output schema is not valid JSON: {str(wrong)[:200]}") from wrong


def _check(schema: str, request: dict[str, Any]) -> None:
    """Check the request of a form; ApiError in words for people if it is invalid."""
    try:
        openapi.check(f"#/components/schemas/{schema}", request)
    except ApiError as refused:
        first = refused.members["errors"][0]
        field = first["path"].removeprefix("$").removeprefix(".")
        raise ApiError(refused.code, f"{field}: {first['message']}" if field else first["message"]) from refused


class Pages(Struct, frozen=True):
    """The pages of one server."""

    core: Server
    streams: EventStreams
    guard: RequestCheck
    codes: LoginCodes | None

    def inbox(self) -> str:
        """Show the open questions."""
        sent = runs.find(self.core.store, request.args.get("sent", ""))
        notice = f"Your reply to {sent.handle} was sent." if sent else ""
        live = url_for(".live", after=runs.last_event_id(self.core.store))
        inbox = content.inbox(self.core.store, event_id("query", "skip") or 0)
        return self._render("inbox.html", inbox=inbox, notice=notice, live=live)

    def runs(self) -> str:
        """List runs."""
        live = url_for(".live", after=runs.last_event_id(self.core.store))
        state, engine = request.args.get("state", type=State), request.args.get("engine")
        chosen: dict[str, Any] = {"state": state, "engine": engine if engine in engine_names() else None}
        page = content.run_list(self.core.store, **chosen, before=event_id("query", "before"))
        return self._render("runs.html", list=page, **chosen, states=[*State], engines=engine_names(), live=live)

    def new(self) -> str:
        """Show the form that starts a run."""
        return self._form({}, None)

    def start(self) -> AnyResponse:
        """Start a run; show the form again if it can't be started."""
        try:
            body = run_request(request.form)
            accepted = self.core.commands.create(RunRequest.of(body), idempotency_key(request.form, body))
        except ApiError as refused:
            return make_response(self._form(request.form, refused), _status(refused))
        return redirect(url_for(".run", run_id=accepted.run_id), 303)

    def run(self, run_id: str) -> str:
        """Show a run."""
        after = runs.last_event_id(self.core.store)
        run = content.existing(self.core.store, run_id)
        turn, before = event_id("query", "turn"), event_id("query", "before")
        view = content.run_view(self.core.store, run, turn, before)
        live = None if view.is_over else url_for(".live", after=after, run=run_id)
        refused, unsent = self.core.commands.no_continue(run), runs.unsent_reply(self.core.store, run_id)
        said = unsent.response if unsent else runs.last_answer(self.core.store, run_id, run.turn_index) or ""
        return self._render("run.html", view=view, refused=refused, unsent=unsent, said=said, live=live)

    def file(self, run_id: str) -> str:
        """Show a file that a run changed."""
        run, path = content.existing(self.core.store, run_id), request.args.get("path", "")
        return self._render("file.html", run=run, view=run_files.view(self.core.store, run, path), live=None)

    def download(self, run_id: str) -> Response:
        """Download a file that a run changed."""
        run = content.existing(self.core.store, run_id)
        return run_files.download(self.core.store, run, request.args.get("path", ""))

    def reply(self, run_id: str) -> AnyResponse:
        """Reply to a question."""
        content.existing(self.core.store, run_id)
        question = runs.question(self.core.store, request.form.get("interaction_id", ""))
        body = reply_request(request.form, question if question and question.run_id == run_id else None)
        self.core.commands.reply(run_id, convert(body, ReplyRequest), idempotency_key(request.form, body))
        if request.form.get("back") == "inbox":
            return redirect(url_for(".inbox", sent=run_id), 303)
        return redirect(url_for(".run", run_id=run_id, sent=1), 303)

    def again(self, run_id: str) -> AnyResponse:
        """Start a new run with the same input as another one."""
        wanted = content.existing(self.core.store, run_id).launch.request
        key = idempotency_key(request.form, {"again": run_id})
        return redirect(url_for(".run", run_id=self.core.commands.create(wanted, key).run_id), 303)

    def go_on(self, run_id: str) -> AnyResponse:
        """Continue a run that has ended in its session."""
        content.existing(self.core.store, run_id)
        body = {"message": dict(_texts(request.form)).get("text", "")}
        _check("ContinueRun", body)
        self.core.commands.continue_run(run_id, convert(body, ContinueRequest), idempotency_key(request.form, body))
        return redirect(url_for(".run", run_id=run_id, sent=1), 303)

    def cancel(self, run_id: str) -> AnyResponse:
        """Cancel a run."""
        self.core.commands.cancel(run_id)
        return redirect(url_for(".run", run_id=run_id), 303)

    def back(self, run_id: str | None = None) -> AnyResponse:
        """Lead from the address of a form, as after a reload, to the page that has the form."""
        return redirect(url_for(".run", run_id=run_id) if run_id else url_for(".inbox"), 303)

    def live(self) -> Response:
        """Stream news of one run or of all, for a page that shows them."""
        asked = event_id("header", "Last-Event-ID"), event_id("query", "after")
        after = next((known for known in asked if known is not None), 0)
        if request.method == "HEAD":
            return Response(mimetype="text/event-stream")
        place, gone = self.streams.enter(), request.environ.get("waitress.client_disconnected", bool)
        news = self.streams.news(self.core.store, request.args.get("run"), after, gone=gone)
        response = Response(news, mimetype="text/event-stream", headers={"X-Accel-Buffering": "no"})
        response.call_on_close(partial(self.streams.leave, place))
        return response

    def login(self) -> AnyResponse:
        """Ask for the token, or take it or a code and begin a session."""
        if request.method == "GET" and "code" in request.args:
            return self._logged_in_by_code(request.args["code"])
        sessions, wanted = self.guard.sessions, request.form.get("next", "/")
        target = wanted if re.fullmatch(r"/(?![/\\])[!-~]*", wanted) else "/"
        if sessions is None or (request.method == "GET" and sessions.is_open(request)):
            return redirect(target, 303)
        if request.method == "GET":
            return make_response(_login_form(target, _VOID if "void" in request.args else ""))
        if not sessions.is_token(request.form.get("token", "").strip()):
            return make_response(_login_form(target, "This is not the server's token."), 401)
        response = redirect(target, 303)
        sessions.begin(response, request)
        return response

    def _logged_in_by_code(self, code: str) -> AnyResponse:
        """Exchange a code for a session; the browser leaves the address with the code in any case."""
        sessions = self.guard.sessions
        is_valid = self.codes is not None and self.codes.redeem(code)
        is_welcome = sessions is None or is_valid or sessions.is_open(request)
        response = redirect(url_for(".inbox") if is_welcome else url_for(".login", void=1), 303)
        response.headers["Referrer-Policy"] = "no-referrer"
        if sessions and is_valid:
            sessions.begin(response, request)
        return response

    def logout(self) -> AnyResponse:
        """End the session of this browser, wherever its cookie is."""
        response = redirect(url_for(".login"), 303)
        if self.guard.sessions:
            self.guard.sessions.end(response, request)
        return response

    def problem(self, error: Exception) -> AnyResponse:
        """Show an error with what the user entered, so that it is not lost."""
        refused = problems.as_api_error(error)
        if refused.code == "UNAUTHORIZED":
            wanted = request.full_path.rstrip("?") if request.method == "GET" else "/"
            response = make_response(_login_form(wanted))
        else:
            reported, run_id = problems.document(refused.code, refused.detail, refused.hint), request.view_args or {}
            response = make_response(
                render_template(
                    "problem.html",
                    waiting=None,  # a request that was refused may not know it, and the store may be what fails
                    has_session=self.guard.token is not None,
                    reported=reported,
                    is_closed=refused.code in _CLOSED,
                    run_id=run_id.get("run_id"),
                    answer=self._answer(run_id.get("run_id")) if refused.code in _CLOSED else None,
                    text=request.form.get("text", "") if request.method == "POST" and reported["status"] != 413 else "",  # noqa: PLR2004
                )
            )
        response.status_code = _status(refused)
        return response

    def mistyped(self, error: ApiError | NotFound) -> AnyResponse:
        """Answer a browser that asks for a path that doesn't exist with a page, and all others with a document."""
        known = ("application/json", "text/html")  # a program that takes anything gets the first
        if request.url_rule is None and request.accept_mimetypes.best_match(known) == "text/html":
            asked = request.path[:100]
            missing = ApiError("NOT_FOUND", f"this server has no page {asked!r}")
            return _secured(self.problem(missing if isinstance(error, NotFound) else error))
        return problems.answer(problems.as_api_error(error))

    def _answer(self, run_id: str | None) -> str | None:
        """Return which answer the question of this request got; None if it got none."""
        question = runs.question(self.core.store, request.form.get("interaction_id", ""))
        return question.response if question and question.run_id == run_id else None

    def _form(self, values: Any, refused: ApiError | None) -> str:
        engines = content.engines(self.core)
        offered = self.core.commands.admission.workspace_root
        root = offered and os.path.realpath(offered)
        return self._render("new.html", engines=engines, values=values, refused=refused, workspaces=root, live=None)

    def _render(self, template: str, **more: Any) -> str:
        waiting = runs.counts(self.core.store)[State.WAITING_USER]
        common = {"waiting": waiting, "form_id": secrets.token_urlsafe(16), "has_session": self.guard.token is not None}
        return render_template(template, **common, **more)


def blueprint(core: Server, streams: EventStreams, guard: RequestCheck) -> Blueprint:
    """Make the pages of a server."""
    pages = Pages(core, streams, guard, LoginCodes(guard.token) if guard.token else None)
    web = Blueprint(PAGE, __name__, template_folder="templates", static_folder="static", static_url_path="/static")
    web.add_url_rule("/", "inbox", pages.inbox)
    web.add_url_rule("/runs", "runs", pages.runs)
    web.add_url_rule("/runs", "start", pages.start, methods=["POST"])
    web.add_url_rule("/new", "new", pages.new)
    web.add_url_rule("/runs/<run_id>", "run", pages.run)
    web.add_url_rule("/runs/<run_id>/file", "file", pages.file)
    web.add_url_rule("/runs/<run_id>/download", "download", pages.download)
    web.add_url_rule("/runs/<run_id>/reply", "reply", pages.reply, methods=["POST"])
    web.add_url_rule("/runs/<run_id>/again", "again", pages.again, methods=["POST"])
    web.add_url_rule("/runs/<run_id>/continue", "go_on", pages.go_on, methods=["POST"])
    web.add_url_rule("/runs/<run_id>/cancel", "cancel", pages.cancel, methods=["POST"])
    for form in ("reply", "again", "continue", "cancel"):
        web.add_url_rule(f"/runs/<run_id>/{form}", f"back_from_{form}", pages.back)
    web.add_url_rule("/live", "live", pages.live)
    web.add_url_rule("/login", "login", pages.login, methods=["GET", "POST"])
    web.add_url_rule("/logout", "logout", pages.logout, methods=["POST"])
    web.add_url_rule("/logout", "back_from_logout", pages.back)
    web.register_error_handler(Exception, pages.problem)
    web.app_errorhandler(ApiError)(pages.mistyped)
    web.app_errorhandler(NotFound)(pages.mistyped)
    web.after_request(_secured)
    web.record_once(_prepare)
    return web


def _prepare(state: BlueprintSetupState) -> None:
    """Set up the templates: an undefined variable is an error."""
    environment = state.app.jinja_env
    environment.undefined, environment.trim_blocks = StrictUndefined, True
    environment.filters.update(_FILTERS)
    environment.tests["simple_list"] = display_text.is_simple_list


def _login_form(target: str, problem: str = "") -> str:
    return render_template("login.html", next=target, problem=problem)


def _secured(response: AnyResponse) -> AnyResponse:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    return response


def _status(refused: ApiError) -> int:
    return int(problems.document(refused.code, refused.detail)["status"])
