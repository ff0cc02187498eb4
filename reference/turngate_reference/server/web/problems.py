"""Errors as RFC 9457 problem documents, by the table `problems` in `openapi.yaml`."""

import errno
import json
import logging
import sqlite3
from typing import Any
from urllib.parse import quote

import msgspec
from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from turngate import ContractError, MachineError, UsageError
from turngate_reference.server.requests import ApiError
from turngate_reference.server.web import openapi

_log = logging.getLogger(__name__)


MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 2
_BY_STATUS = {
    404: ("NOT_FOUND", "unknown path", "see GET /openapi.json"),
    405: ("METHOD_NOT_ALLOWED", "this path doesn't support this method", "see the Allow header"),
    413: ("BODY_TOO_LARGE", "the body is larger than 4 MiB", "send less"),
}
_FULL = (errno.ENOSPC, errno.EDQUOT)
MAKE_ROOM = "free some space on the server's disk"


def register(app: Flask) -> None:
    """Register handlers for all errors that views raise."""
    app.register_error_handler(ApiError, answer)
    app.register_error_handler(HTTPException, _http)
    app.register_error_handler(Exception, lambda error: answer(as_api_error(error)))


def document(code: str, detail: str, hint: str = "", *, path: str = "", **members: Any) -> dict[str, Any]:
    """Make a problem document; KeyError if the table does not list the code."""
    entry = openapi.problems()[code]
    reported = {"type": f"urn:turngate:problem:{code}", "title": entry["title"], "status": int(entry["status"])}
    reported |= {"detail": detail, "code": code}
    optional = {"instance": quote(path, safe="/:@!$&'()*+,;=~"), "hint": hint}
    return reported | {name: text for name, text in optional.items() if text} | members


def as_bytes(value: Any) -> bytes:
    """Return JSON for an answer; invalid Unicode becomes question marks rather than an error."""
    return json.dumps(msgspec.to_builtins(value), ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def answer(refusal: ApiError) -> Response:
    """Answer a rejected request."""
    reported = document(refusal.code, refusal.detail, refusal.hint, path=request.path, **refusal.members)
    response = Response(as_bytes(reported), int(reported["status"]), mimetype=MEDIA_TYPE)
    if response.status_code == 503:  # noqa: PLR2004 - the status of the table
        response.headers["Retry-After"] = str(RETRY_SECONDS)
    if refusal.code == "UNAUTHORIZED":
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def _http(error: HTTPException) -> Response:
    response = answer(as_api_error(error))
    for name, value in error.get_headers():
        if name == "Allow":
            response.headers[name] = value
    return response


def machine_error(error: BaseException | None) -> tuple[str, str]:
    """Return what the machine lacks that an error is about, and what to do; empty for an error of turngate itself."""
    why, hint = "", "retry later"
    match error:
        case MachineError() | UsageError():
            why, hint = error.what, error.hint
        case ContractError():
            why = str(error)
        case sqlite3.OperationalError():
            why = f"the database is not available right now: {error}"
        case OSError() if error.errno in _FULL:
            why = _unable(error)
    causes = error, error.__cause__ if error else None
    is_full = any(isinstance(cause, OSError) and cause.errno in _FULL for cause in causes)
    if is_full or getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
        hint = MAKE_ROOM
    return why, hint


def _unable(error: OSError) -> str:
    return f"the server can't do this right now: {error.strerror}"


def as_api_error(error: Exception) -> ApiError:
    """Convert any error to an ApiError; unexpected ones are logged."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, HTTPException):
        return ApiError(*_BY_STATUS.get(error.code or 400, ("REQUEST_MALFORMED", error.description or "", "")))
    why, hint = machine_error(error)
    if why:
        _log.error("a request failed: %s (%s)", why, hint)
        return ApiError("STORE_UNAVAILABLE", why, hint)
    _log.error("a request failed: %s", error, exc_info=error)
    if isinstance(error, OSError):
        return ApiError("STORE_UNAVAILABLE", _unable(error), hint)
    if isinstance(error, sqlite3.Error):
        return ApiError("STORE_UNAVAILABLE", f"the database is not available right now: {error}", hint)
    return ApiError("INTERNAL_ERROR", "the server failed; its log says how", "report it")
