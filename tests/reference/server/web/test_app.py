"""What the app makes of requests and errors, whatever they are about."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reference import cli_env as d
from tests.reference.caller import Caller, problem_flaws
from tests.reference.server_env import ServerEnv
from tests.reference.wire import exchange, served
from turngate_reference.server.app import Server
from turngate_reference.server.states import State
from turngate_reference.server.web.validation import MAX_BODY

RUN = b'{"engine": "codex", "prompt": "x", "output_schema": %s}'


@pytest.fixture(name="caller")
def _caller(closed_server_env: ServerEnv) -> Iterator[Caller]:
    """Build a server that takes runs and starts none of them."""
    closed_server_env.cli_env.engine("codex", d.codex("x"))
    server = Server(closed_server_env.settings)
    yield Caller(server)
    server.close()


@pytest.mark.parametrize(
    "path", ["/", "/v1", "/v1/runs/", "/v1/runs//turns", "/V1/runs", "/v1/runs/x/y", "/%00", "/v1/%ff"]
)
def test_other_paths_are_none(caller: Caller, path: str) -> None:
    """A path that the document does not list is a problem, and never a redirection."""
    answer = caller.get(path)
    assert (answer.status, answer.json["code"]) == (404, "NOT_FOUND")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "POST"])
def test_other_methods_are_named(caller: Caller, method: str) -> None:
    """The answer names the methods that there are."""
    answer = caller.call(method, "/v1/engines")
    assert (answer.status, answer.json["code"]) == (405, "METHOD_NOT_ALLOWED")
    assert set(answer.headers["Allow"].split(", ")) == {"GET", "HEAD"}


@pytest.mark.parametrize(
    "body, said",
    [
        (b"", "Expecting value"),
        (b"\xff\xfe{}", "decode"),
        (b"{'a': 1}", "property name"),
        (RUN % b'{"a": 1, "a": 2}', "'a' stands twice"),
        (RUN % b'{"minimum": NaN}', "does not know"),
        (RUN % b'{"minimum": -Infinity}', "does not know"),
        (RUN % b'{"minimum": 1e999}', "does not know"),
        (RUN % (b'{"minimum": ' + b"9" * 5000 + b"}"), "digits"),
        (RUN % (b'{"a":' * 100 + b"1" + b"}" * 100), "nested"),
        (RUN % (b'{"a":' * 100_000 + b"1" + b"}" * 100_000), "nested"),
        (RUN % b'{"a": "\\ud800"}', "surrogate"),
        (RUN % b'{"\\udfff": 1}', "surrogate"),
    ],
)
def test_a_body_is_strict_json(caller: Caller, body: bytes, said: str) -> None:
    """What JSON forbids, what reads in two ways and what can't be stored is refused before it is looked at."""
    answer = caller.call("POST", "/v1/runs", data=body, content_type="application/json; charset=utf-8")
    assert (answer.status, answer.json["code"]) == (400, "BAD_JSON")
    assert said in answer.json["detail"]


@pytest.mark.parametrize(
    "body, path, said",
    [
        ({"prompt": "x"}, "$", "'engine' is a required property"),
        ([], "$", "must be of type object"),
        ("x", "$", "must be of type object"),
        ({"engine": "codex", "prompt": ""}, "$.prompt", "1 or more characters"),
        ({"engine": "codex", "prompt": "x" * (2 * 2**20 + 1)}, "$.prompt", "2097152 or fewer characters"),
        ({"engine": "codex", "prompt": "x", "color": "red"}, "$", "'color' was unexpected"),
        ({"engine": "codex", "prompt": "x", "engine_options": ["a", 7]}, "$.engine_options[1]", "of type string"),
        ({"engine": "codex", "prompt": "x", "engine_options": ["a\0"]}, "$.engine_options[0]", "must match"),
        ({"engine": "codex", "prompt": "x", "session_timeout_sec": True}, "$.session_timeout_sec", "of type integer"),
        ({"engine": "codex", "prompt": "x", "session_timeout_sec": 86401}, "$.session_timeout_sec", "86400 or less"),
        ({"engine": "codex", "prompt": "x", "execution_mode": "yolo"}, "$.execution_mode", "one of auto, interactive"),
    ],
)
def test_a_wrong_member_is_named(caller: Caller, body: object, path: str, said: str) -> None:
    """The place and what is expected there are told, and not the value, which may be long."""
    answer = caller.post("/v1/runs", body)
    assert (answer.status, answer.json["code"]) == (422, "INVALID_REQUEST")
    assert [(e["path"], said in e["message"]) for e in answer.json["errors"]] == [(path, True)]
    assert path in answer.json["detail"]
    assert len(answer.body) < 2000


@pytest.mark.parametrize("key", ["", " ", "a b", "\u00e9", "x" * 256])
def test_an_odd_key_is_refused(caller: Caller, key: str) -> None:
    """An Idempotency-Key is bounded and visible."""
    answer = caller.post("/v1/runs", {"engine": "codex", "prompt": "x"}, Idempotency_Key=key)
    assert answer.json["errors"][0]["path"] == "header.Idempotency-Key"


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=101", "limit=x", "limit=", "before=0", "state=done", "sort=up", "limit=1&limit=2"]
)
def test_an_odd_parameter_is_refused(caller: Caller, query: str) -> None:
    """A parameter that is unknown, wrong or stands twice would otherwise be silently ignored."""
    answer = caller.get(f"/v1/runs?{query}")
    assert answer.json["errors"][0]["path"] == f"query.{query.partition('=')[0]}"


def test_a_body_is_bounded(caller: Caller) -> None:
    """4 MiB are read at most, whether the length is told or not."""
    answer = caller.call("POST", "/v1/runs", data=b"x" * (MAX_BODY + 1), content_type="application/json")
    assert answer.json["code"] == "BODY_TOO_LARGE"
    head = b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += b"Transfer-Encoding: chunked\r\n\r\n"
    chunk = b"100000\r\n" + b" " * 2**20 + b"\r\n"
    with served(caller) as port:
        chunked = exchange(port, head + chunk * 5 + b"0\r\n\r\n")
        assert chunked.json["code"] == "BODY_TOO_LARGE"
        assert exchange(port, head + b"2\r\n{}\r\n0\r\n\r\n").json["code"] == "INVALID_REQUEST"
        assert exchange(port, head + b"zz\r\n").json["code"] == "REQUEST_MALFORMED"
        odd = exchange(port, head.replace(b"chunked", b"gzip"))
        assert (odd.status, odd.json["code"]) == (400, "REQUEST_MALFORMED")


@pytest.mark.parametrize("path", ["/v1/runs/x/cancel", "/v1/runs/x/interaction/reply"])
def test_a_body_that_nobody_reads_is_bounded_too(caller: Caller, path: str) -> None:
    """A request that needs none of its body is refused all the same for one that is too large."""
    assert caller.call("POST", path, data=b"x" * (MAX_BODY + 1)).json["code"] == "BODY_TOO_LARGE"
    chunk = b"100000\r\n" + b" " * 2**20 + b"\r\n"
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    with served(caller) as port:
        assert exchange(port, head + chunk * 5 + b"0\r\n\r\n").json["code"] == "BODY_TOO_LARGE"


def test_a_locked_database_changes_nothing(
    caller: Caller, closed_server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another process holds the database, requests that change it are told to come again."""
    monkeypatch.setattr("turngate_reference.server.store.database.BUSY_SECONDS", 0.0)
    with sqlite3.connect(closed_server_env.settings.data.root / "turngate.db", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        answer = caller.post("/v1/runs", {"engine": "codex", "prompt": "x"})
        assert (answer.status, answer.json["code"]) == (503, "STORE_UNAVAILABLE")
        assert caller.get("/v1/runs").json["runs"] == []
        other.execute("ROLLBACK")
    other.close()
    assert not [*closed_server_env.settings.data.runs.glob("*")]
    assert caller.post("/v1/runs", {"engine": "codex", "prompt": "x"}).status == 202


def test_a_full_disk_changes_nothing(
    caller: Caller, closed_server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose directory can't be made is none."""
    monkeypatch.setattr(Path, "mkdir", _full)
    answer = caller.post("/v1/runs", {"engine": "codex", "prompt": "x"})
    assert (answer.status, answer.json["code"]) == (503, "STORE_UNAVAILABLE")
    monkeypatch.undo()
    assert caller.get("/v1/runs").json["runs"] == []


def _faulty() -> None:
    raise KeyError("secret")


def test_a_failing_machine_is_told_as_such(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the system refuses in the midst of a request is a 503, since it may be granted later."""
    monkeypatch.setattr(caller.core.engines, "every", _full)
    answer = caller.get("/v1/engines")
    assert (answer.status, answer.json["code"]) == (503, "STORE_UNAVAILABLE")


def _full(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_fault_of_ours_is_a_problem_too(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody foresaw is told as such, without its inside."""
    monkeypatch.setattr(caller.core.engines, "every", _faulty)
    response = caller.client.get("/v1/engines")
    assert response.status_code == 500
    assert '"INTERNAL_ERROR"' in response.text
    assert "secret" not in response.text


def test_no_answer_is_guessed_at_or_kept(caller: Caller) -> None:
    """Answers are neither sniffed for another type nor cached, problems included."""
    for path in ("/healthz", "/v1/runs/x"):
        headers = caller.get(path).headers
        assert (headers["X-Content-Type-Options"], headers["Cache-Control"]) == ("nosniff", "no-store")


def test_a_problem_names_its_place(caller: Caller) -> None:
    """The path is told as a URI, whatever stands in it."""
    answer = caller.get("/v1/runs/%C3%A9%20%22%0A/turns")
    assert answer.json["instance"] == "/v1/runs/%C3%A9%20%22%0A/turns"
    assert not problem_flaws(answer)


def test_metrics_tell_what_there_is(server_env: ServerEnv) -> None:
    """Runs by state, slots, and the turns that have ended, by labels of small closed sets."""
    caller = Caller(server_env.server)
    server_env.cli_env.engine("codex", d.codex("x"))
    server_env.wait(server_env.create(), State.SUCCEEDED)
    caller.metrics.turn_ended("codex", "final", 0.3)
    text = caller.get("/metrics").body.decode()
    for line in (
        'turngate_runs{state="succeeded"} 1.0',
        'turngate_runs{state="waiting_user"} 0.0',
        "turngate_slots 2.0",
        "turngate_streams_open 0.0",
        'turngate_turns_total{engine="codex",outcome="final"} 1.0',
        'turngate_turn_seconds_bucket{engine="codex",le="0.5"} 1.0',
    ):
        assert line in text.splitlines()
