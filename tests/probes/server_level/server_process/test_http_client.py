"""The client of the server's API."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from turngate_probes.harness.interrupt import CaseStoppedError
from turngate_probes.harness.observations import ServerCall
from turngate_probes.server_level.server_process import CaseClient

ANSWERS = {
    "/ok": (202, b'{"links": {}}'),
    "/problem": (409, b'{"code": "NOT_WAITING", "detail": "it does not wait"}'),
    "/list": (200, b"[1]"),
    "/text": (404, b"nothing here"),
    "/empty": (204, b""),
    "/broken": (500, b'{"code": "INTERNAL_ERROR", "detail": "a fault"}'),
}


class _Handler(BaseHTTPRequestHandler):
    got: list[tuple[str, str | None, bytes]]
    authorizations: list[str | None]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.authorizations.append(self.headers.get("Authorization"))
        self.got.append((self.command, self.headers.get("Idempotency-Key"), body))
        status, answer = ANSWERS[self.path]
        self.send_response(status)
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST  # noqa: N815 - the base class's name

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Keep silent."""


@pytest.fixture(name="url")
def _url() -> Iterator[str]:
    """Serve the responses in `ANSWERS`, and record requests in the handler's `got`."""
    _Handler.got, _Handler.authorizations = [], []
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_requests_are_noted_with_their_answers(url: str) -> None:
    """A named request is recorded with its JSON body and response; the key is sent as a header."""
    noted: list[ServerCall] = []
    client = CaseClient(url, "secret", noted.append)
    call = client.post("/ok", {"a": 1}, "loop/create", key="k1")
    client.get("/list")
    assert noted == [call] == [ServerCall("loop/create", "POST", "/ok", 202, {"a": 1}, {"links": {}})]
    assert _Handler.got == [("POST", "k1", b'{"a": 1}'), ("GET", None, b"")]
    assert _Handler.authorizations == ["Bearer secret"] * 2
    assert "secret" not in repr(noted)


def test_a_problem_is_an_answer_like_any_other(url: str) -> None:
    """A problem response is returned like any other, with its description."""
    call = CaseClient(url, "secret", lambda _: None).post("/problem", {}, "one")
    assert (call.status, call.document["code"]) == (409, "NOT_WAITING")
    assert call.summary() == "POST /problem: 409: NOT_WAITING: it does not wait"


@pytest.mark.parametrize("path, answer", [("/list", [1]), ("/text", "nothing here"), ("/empty", None)])
def test_an_answer_that_is_no_object_is_an_empty_document(url: str, path: str, answer: object) -> None:
    """A response that is no JSON object is recorded as it is, and read as an empty object."""
    call = CaseClient(url, "secret", lambda _: None).get(path)
    assert (call.answer, call.document) == (answer, {})


def test_a_fault_of_the_server_ends_the_case(url: str) -> None:
    """A server error ends the case, since it says nothing about the engine, and is recorded."""
    noted: list[ServerCall] = []
    with pytest.raises(CaseStoppedError, match="the server itself failed: GET /broken: 500: INTERNAL_ERROR: a fault"):
        CaseClient(url, "secret", noted.append).get("/broken", "loop/asked")
    assert [call.status for call in noted] == [500]


def test_a_server_that_is_gone_ends_the_case(url: str) -> None:
    """If the server is gone, the case ends and says so."""
    with pytest.raises(CaseStoppedError, match="did not respond to GET /ok"):
        CaseClient("http://127.0.0.1:1", "secret", lambda _: None).get("/ok")
