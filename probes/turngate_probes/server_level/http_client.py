"""Talks to the server like any client, and records requests and responses."""

import json
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlsplit

from turngate_probes.harness.interrupt import CaseStoppedError
from turngate_probes.harness.observations import ServerCall

TIMEOUT = 30.0
FAILED = 500


class CaseClient:
    """Sends requests with a token to the server at `url`.

    Safe for threads, because each request uses a separate connection.
    """

    def __init__(self, url: str, token: str, note: Callable[[ServerCall], None]) -> None:
        """Send requests to `url`; `note` gets those that have a name, but never the token."""
        self._address = urlsplit(url).netloc
        self._authorization = {"Authorization": f"Bearer {token}"}
        self._note = note

    def get(self, path: str, name: str = "") -> ServerCall:
        """GET a path; recorded if the request has a name."""
        return self._send(name, "GET", path, None, {})

    def post(self, path: str, body: Any, name: str, *, key: str | None = None) -> ServerCall:
        """POST to a path, with an Idempotency-Key if given."""
        return self._send(name, "POST", path, body, {"Idempotency-Key": key} if key else {})

    def _send(self, name: str, method: str, path: str, body: Any, headers: dict[str, str]) -> ServerCall:
        """Send one request; CaseStoppedError if the server fails, which says nothing about the engine."""
        sent = None if body is None else json.dumps(body)
        if sent is not None:
            headers = headers | {"Content-Type": "application/json"}
        connection = HTTPConnection(self._address, timeout=TIMEOUT)
        try:
            connection.request(method, path, sent, headers | self._authorization)
            response = connection.getresponse()
            call = ServerCall(name, method, path, response.status, body, _read(response.read()))
        except (OSError, HTTPException) as failed:
            raise CaseStoppedError(f"the server did not respond to {method} {path}: {failed}") from failed
        finally:
            connection.close()
        if name:
            self._note(call)
        if call.status >= FAILED:
            raise CaseStoppedError(f"the server itself failed: {call.summary()}")
        return call


def _read(answer: bytes) -> Any:
    try:
        return json.loads(answer) if answer else None
    except ValueError:
        return answer.decode("utf-8", "replace")
