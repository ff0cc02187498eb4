"""Talks to a running `turngate serve` over its HTTP API."""

import json
import os
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from msgspec import Struct

from turngate import MachineError, NotFoundError, ServerRefusedError, UsageError
from turngate.decoding import convert
from turngate.sanitize import visible
from turngate_reference.access import token_of
from turngate_reference.data_dir import DataDir, running_server

TIMEOUT = 60.0
_PAGE = 100


class Pending(Struct, frozen=True):
    """An open question of a run."""

    interaction_id: str
    kind: str
    prompt: str
    options: list[str]
    required_fields: list[str]
    asked_at: str


class ServedRunInfo(Struct, frozen=True):
    """A run as the server lists it, with its open question."""

    run_id: str
    handle: str
    engine: str
    state: str
    turn_index: int
    created_at: str
    wait_deadline_at: str | None = None
    pending: Pending | None = None


class ServerClient(Struct, frozen=True):
    """A server at `url`; `token` is empty if it needs none. Methods raise TurngateError if they can't be done."""

    url: str
    token: str

    def waiting(self) -> list[dict[str, Any]]:
        """Return the runs that wait for their user, each with its question as `pending`; oldest first."""
        runs, following = [], f"/v1/runs?state=waiting_user&limit={_PAGE}"
        while following:
            page = self._send("GET", following)
            asked = [
                run | {"pending": self._send("GET", run["links"]["interaction"])["pending"]} for run in page["runs"]
            ]
            runs += [run for run in asked if run["pending"]]
            following = page["next"]
        return sorted(runs, key=lambda run: (run["wait_deadline_at"] or "~", run["pending"]["asked_at"]))

    def newest(self, limit: int) -> list[dict[str, Any]]:
        """Return the newest runs."""
        listed: list[dict[str, Any]] = self._send("GET", f"/v1/runs?{urlencode({'limit': limit})}")["runs"]
        return listed

    def reply(self, run: ServedRunInfo, question: Pending, response: str) -> dict[str, Any]:
        """Reply to a question; the server takes one reply to each."""
        body = {"interaction_id": question.interaction_id, "response": response}
        answer: dict[str, Any] = self._send("POST", f"/v1/runs/{quote(run.run_id)}/interaction/reply", body)
        return answer

    def _send(self, method: str, path: str, body: Any = None) -> Any:
        parts = urlsplit(self.url)
        # not urllib, which would send local requests to a proxy
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        sent = None if body is None else json.dumps(body).encode()
        connection = kind(parts.netloc, timeout=TIMEOUT)
        try:
            connection.request(
                method, parts.path.rstrip("/") + path, sent, headers | {"Content-Type": "application/json"}
            )
            response = connection.getresponse()
            answer = json.loads(response.read())
        except (OSError, HTTPException, ValueError) as failed:
            hint = "is it running? give its address with --url or TURNGATE_URL"
            raise MachineError(
                f"{self.url} did not answer as turngate serve does: {visible(str(failed))}", hint
            ) from failed
        finally:
            connection.close()
        if response.status >= 400:  # noqa: PLR2004 - an error of HTTP
            raise _refused(answer)
        return answer


def find_server(asked: str | None, data: DataDir) -> ServerClient:
    """Return the server at the given address, else at `TURNGATE_URL`, else the one that runs on the data directory.

    Its token is taken from `TURNGATE_TOKEN`, else from the file of the server on the data directory if that is the
    one. No other server gets that token. UsageError if there is no such server.
    """
    here = running_server(data)
    url = asked or os.environ.get("TURNGATE_URL") or (here.url if here else None)
    if url is None:
        hint = "start one with turngate serve, or give its address with --url or TURNGATE_URL"
        raise NotFoundError(f"no server runs on {data.root}", hint)
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise UsageError(f"{url!r} is no address of a server", "it looks like http://127.0.0.1:8321")
    token = os.environ.get("TURNGATE_TOKEN", "").strip()
    if not token and here and url.rstrip("/") == here.url:
        token = token_of(data, here) or ""
    return ServerClient(url, token)


def info(run: dict[str, Any]) -> ServedRunInfo:
    """Parse the server's description of a run."""
    return convert(run, ServedRunInfo)


def _refused(problem: Any) -> ServerRefusedError:
    """Return the error for a problem document."""
    reported = problem if isinstance(problem, dict) else {}
    if reported.get("code") == "UNAUTHORIZED":
        hint = "give it in the environment variable TURNGATE_TOKEN; on the server's machine, turngate token prints it"
        return ServerRefusedError("the server needs its token, and got none or another", hint)
    detail = visible(str(reported.get("detail", "the server refused the request")))
    return ServerRefusedError(detail, visible(str(reported.get("hint", ""))))
