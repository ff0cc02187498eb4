"""Sends a reply to the server that runs on a data directory, over its HTTP API."""

import json
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlsplit

from turngate import MachineError, NotFoundError, ServerRefusedError
from turngate.sanitize import visible
from turngate_reference.access import token_of
from turngate_reference.data_dir import DataDir, running_server

TIMEOUT = 60.0
_FIRST_ERROR = 400  # of the status codes of HTTP


def send_reply(data: DataDir, path: str, interaction_id: str, response: str) -> None:
    """Reply to a question; TurngateError: no server runs on the directory, or it refused the reply."""
    server = running_server(data)
    if server is None:
        raise NotFoundError(f"no server runs on {data.root}", f"start one: {data.command('serve')}")
    token = token_of(data, server)
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    body = json.dumps({"interaction_id": interaction_id, "response": response}).encode()
    # not urllib, which would send local requests to a proxy
    connection = HTTPConnection(urlsplit(server.url).netloc, timeout=TIMEOUT)
    try:
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        problem = json.loads(answer.read())
    except (OSError, HTTPException, ValueError) as failed:
        what = f"{server.url} did not answer as turngate serve does: {visible(str(failed))}"
        raise MachineError(what, f"see whether it took the reply: {data.command('handles')}") from failed
    finally:
        connection.close()
    if answer.status >= _FIRST_ERROR:
        raise _refused(problem)


def _refused(problem: Any) -> ServerRefusedError:
    """Return the error for a problem document."""
    reported = problem if isinstance(problem, dict) else {}
    detail = visible(str(reported.get("detail", "the server refused the request")))
    return ServerRefusedError(detail, visible(str(reported.get("hint", ""))))
