"""Tests of the whole documented API: every listed answer occurs, and no other."""

import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest

from tests.longer import first_quick
from tests.reference import cli_env as d
from tests.reference.caller import TOKEN, Caller, all_but, concrete, documented
from tests.reference.server.output_schema import hostile
from tests.reference.server_env import ASK, ServerEnv, final
from tests.reference.wire import exchange, served
from turngate.errors import MachineError
from turngate_reference.server.app import Server
from turngate_reference.server.requests import ApiError
from turngate_reference.server.web import openapi, run_files
from turngate_reference.server.web.openapi import MAX_BODY
from turngate_reference.server.web.security import PAGE, RequestCheck
from turngate_reference.server.web.streams import EventStreams
from turngate_reference.states import State

ASKS = {"engine": "codex", "prompt": "paint it", "execution_mode": "interactive"}
NAMES_A_FOLDER = {"engine_options": ["--add-dir", "a"]}
BODIES = {
    "createRun": ASKS,
    "continueRun": {"message": "go on"},
    "replyToInteraction": {"interaction_id": "x", "response": "red"},
}


@pytest.fixture(name="open_house")
def _open_house(closed_server_env: ServerEnv) -> Iterator[ServerEnv]:
    """Provide a server with workspaces, whose Codex asks in turn 1, ends in turn 2, and asks from then on."""
    root = closed_server_env.cli_env.root / "projects"
    (root / "door").mkdir(parents=True)
    closed_server_env.keep_session()
    written = [["write", "note.txt", "red\n"], ["write", "data", "\0"]]
    closed_server_env.cli_env.engine("codex", d.codex(ASK), d.codex(final(colour="red"), more=written), d.codex(ASK))
    closed_server_env.open(workspace_root=root)
    yield closed_server_env
    closed_server_env.server.close()


@pytest.mark.long
def test_every_documented_answer_occurs_and_no_other(open_house: ServerEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each status and code of each operation occurs, and each answer is valid by the document."""
    caller = Caller(open_house.server)
    ended = a_run_to_its_end(caller, open_house)
    what_a_run_changed(caller, ended, monkeypatch)
    waiting = what_a_create_refuses(caller, open_house)
    what_a_reply_refuses(caller, open_house, ended, waiting)
    what_a_continue_refuses(caller, open_house, waiting)
    caller.post(f"/v1/runs/{waiting}/cancel")
    caller.post(f"/v1/runs/{ended}/cancel")
    what_is_wrong_with_any_request(caller)
    what_is_no_http(caller)
    what_the_core_refuses(caller, ended, monkeypatch)
    what_fails_with_the_disk(caller, ended, monkeypatch)
    assert documented() - caller.seen == set()


def a_run_to_its_end(caller: Caller, server_env: ServerEnv) -> str:
    """Create a run, reply to its question, and read everything about it; return its id."""
    for path in ("/healthz", "/readyz", "/metrics", "/openapi.json", "/v1/engines"):
        assert caller.get(path).status == 200
    created = caller.post("/v1/runs", ASKS, Idempotency_Key="once")
    run_id: str = created.json["run_id"]
    assert created.headers["Location"] == created.json["links"]["self"]
    server_env.question(run_id)
    assert caller.post("/v1/runs", ASKS, Idempotency_Key="once").json == created.json
    asked = caller.get(created.json["links"]["interaction"]).json
    assert asked["state"] == "waiting_user"
    reply = {"interaction_id": asked["pending"]["interaction_id"], "response": "red"}
    taken = caller.post(created.json["links"]["reply"], reply, Idempotency_Key="reply")
    assert (taken.status, taken.json["interaction_id"]) == (202, reply["interaction_id"])
    server_env.wait(run_id, State.SUCCEEDED)
    assert caller.post(created.json["links"]["reply"], reply, Idempotency_Key="reply").json == taken.json
    shown = caller.get(created.json["links"]["self"]).json
    assert (shown["state"], shown["final_data"], shown["turn_index"]) == ("succeeded", {"colour": "red"}, 2)
    assert [turn["outcome"] for turn in caller.get(shown["links"]["turns"]).json["turns"]] == ["ask_user", "final"]
    assert caller.get("/v1/runs").json["runs"][0]["run_id"] == run_id
    assert b"event: interaction" in caller.get(shown["links"]["events"]).body
    assert caller.get(shown["links"]["events"], Last_Event_ID="100000").status == 204
    return run_id


def what_a_run_changed(caller: Caller, ended: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the files that a run changed, and trigger every error of that."""
    files = f"/v1/runs/{ended}/files"
    listed = caller.get(files).json
    assert [(file["path"], file["change"], file["turn_index"]) for file in listed["files"]] == [
        ("data", "added", 2),
        ("note.txt", "added", 2),
    ]
    assert listed["gaps"] == []
    answer = caller.get(f"{files}/content?path=note.txt")
    assert (answer.body, answer.headers["Content-Type"]) == (b"red\n", "text/plain; charset=utf-8")
    assert answer.headers["Content-Disposition"] == "attachment; filename*=UTF-8''note.txt"
    assert answer.headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert caller.get(f"{files}/content?path=data").headers["Content-Type"] == "application/octet-stream"
    assert caller.get(f"{files}/patch?path=note.txt").body.decode().endswith("@@ -0,0 +1 @@\n+red\n")
    refused = {"content": "FILE_NOT_FOUND", "patch": "FILE_NOT_FOUND", "content?path=../record": "FILE_NOT_FOUND"}
    refused |= {
        "patch?path=data": "FILE_NOT_TEXT",
        "content?path=": "INVALID_REQUEST",
        "patch?path=": "INVALID_REQUEST",
    }
    for path, code in refused.items():
        assert caller.get(f"{files}/{path}{'' if '?' in path else '?path=x'}").json["code"] == code
    assert caller.get(f"{files}/content").json["errors"] == [{"path": "query.path", "message": "is missing"}]
    with monkeypatch.context() as small:
        small.setattr(run_files, "MAX_DOWNLOAD", 3)
        assert caller.get(f"{files}/content?path=note.txt").json["code"] == "FILE_TOO_LARGE"


def what_a_create_refuses(caller: Caller, server_env: ServerEnv) -> str:
    """Trigger every error of creating a run that an engine or the disk can cause; return a waiting run."""
    run_id: str = caller.post("/v1/runs", ASKS | {"workspace": "door"} | NAMES_A_FOLDER).json["run_id"]
    server_env.question(run_id)
    server_env.cli_env.engine("grok", version="grok 1.0.41 (0)")
    refused: dict[str, dict[str, Any]] = {
        "WORKSPACE_BUSY": {"workspace": "door"},
        "INVALID_REQUEST": {"session_timeout_sec": 0},
        "UNKNOWN_ENGINE": {"engine": "/bin/sh"},
        "ENGINE_NOT_INSTALLED": {"engine": "gemini"},
        "AUTO_FLAG_REFUSED": {"engine_options": ["--yolo"]},
        "OPTION_REFUSED": {"engine_options": ["--frobnicate"]},
        "INVALID_OUTPUT_SCHEMA": {"output_schema": {"type": 7}},
        "SCHEMA_TOO_COSTLY": {"output_schema": hostile.doubling()},
        "WORKSPACE_REFUSED": {"workspace": ".."},
        "PROFILE_UNAVAILABLE": {"engine": "grok", "interactive_profile": "sticky_process"},
    }
    for code, changes in refused.items():
        assert caller.post("/v1/runs", ASKS | changes).json["code"] == code
    assert caller.post("/v1/runs", ASKS | {"engine_options": ["--yolo"]}).json["flag"] == "--yolo"
    server_env.server.schemas.close()
    assert caller.post("/v1/runs", ASKS | {"output_schema": {}}).json["code"] == "SCHEMA_CHECKS_BUSY"
    caller.post("/v1/runs", ASKS | {"prompt": "something else"}, Idempotency_Key="once")
    return run_id


def what_a_reply_refuses(caller: Caller, server_env: ServerEnv, ended: str, waiting: str) -> None:
    """Trigger every error of a reply that the state of the run can cause."""
    reply = {"interaction_id": "another", "response": "red"}
    assert caller.post(f"/v1/runs/{ended}/interaction/reply", reply).json["code"] == "NOT_WAITING"
    assert caller.post(f"/v1/runs/{waiting}/interaction/reply", reply).json["code"] == "INTERACTION_STALE"
    caller.post(f"/v1/runs/{waiting}/interaction/reply", {"interaction_id": "x"})
    body = {"interaction_id": server_env.question(waiting).interaction_id, "response": "red"}
    what_is_missing(caller, server_env, f"/v1/runs/{waiting}/interaction/reply", body, "door")
    caller.post(f"/v1/runs/{ended}/interaction/reply", reply, Idempotency_Key="reply")


def what_is_missing(caller: Caller, server_env: ServerEnv, path: str, body: dict[str, Any], workspace: str) -> None:
    """Trigger every error of a reply or a message for which something is missing that the next turn needs."""
    root = server_env.cli_env.root
    for code, place in (
        ("ENGINE_UNAVAILABLE", server_env.cli_env.path / "codex"),
        ("WORKSPACE_UNAVAILABLE", root / "projects" / workspace),
        ("SESSION_STORE_UNAVAILABLE", root / "home" / ".codex"),
    ):
        aside = place.rename(place.with_name("aside"))
        assert caller.post(path, body).json["code"] == code
        aside.rename(place)
    (link := root / "projects" / workspace / "a").symlink_to("/")
    assert caller.post(path, body).json["code"] == "OPTION_REFUSED"
    link.unlink()


def what_a_continue_refuses(caller: Caller, server_env: ServerEnv, waiting: str) -> None:
    """Continue a failed run, and trigger every error of that which the state of the run can cause."""
    assert caller.post(f"/v1/runs/{waiting}/continue", {"message": "x"}).json["code"] == "NOT_CONTINUABLE"
    (server_env.cli_env.path / "codex.calls").unlink()
    server_env.cli_env.engine("codex", d.codex("no envelope"), d.codex("no envelope"), d.codex(ASK))
    (server_env.cli_env.root / "projects" / "house").mkdir()
    run_id: str = caller.post("/v1/runs", ASKS | {"workspace": "house"} | NAMES_A_FOLDER).json["run_id"]
    server_env.failed(run_id)
    path: str = caller.get(f"/v1/runs/{run_id}").json["links"]["continue"]
    assert caller.post(path, {"message": " "}).json["code"] == "INVALID_REQUEST"
    what_is_missing(caller, server_env, path, {"message": "go on"}, "house")
    taken = caller.post(path, {"message": "go on"}, Idempotency_Key="continue")
    assert caller.post(path, {"message": "go on"}, Idempotency_Key="continue").json == taken.json
    assert caller.post(path, {"message": "x"}, Idempotency_Key="continue").json["code"] == "IDEMPOTENCY_KEY_REUSED"
    server_env.failed(run_id)
    busy: str = caller.post("/v1/runs", ASKS | {"workspace": "house"}).json["run_id"]
    server_env.question(busy)
    assert caller.post(path, {"message": "go on"}).json["code"] == "WORKSPACE_BUSY"


@pytest.mark.parametrize("text", first_quick(["", "\u00a0\u2003", " ", "\n\t"], 2))
def test_a_reply_without_words_changes_nothing(open_house: ServerEnv, text: str) -> None:
    """A reply that is empty or only white space is rejected, and the question stays open."""
    caller = Caller(open_house.server)
    run_id, question = open_house.ask()
    path = f"/v1/runs/{run_id}/interaction/reply"
    refused = caller.post(path, {"interaction_id": question.interaction_id, "response": text})
    assert (refused.status, refused.json["code"]) == (422, "INVALID_REQUEST")
    assert {"path": "$.response", "message": "must not be only white space"} in refused.json["errors"]
    assert open_house.run(run_id).pending_interaction_id == question.interaction_id
    other = {"interaction_id": question.interaction_id, "response": "neither: green"}
    assert caller.post(path, other).status == 202
    open_house.wait(run_id, State.SUCCEEDED)
    assert "\n\nneither: green\n\n" in open_house.cli_env.calls()[-1]["stdin"]


def what_is_wrong_with_any_request(caller: Caller) -> None:
    """Send every operation requests that all operations reject."""
    guarded = Caller(caller.core, RequestCheck(TOKEN), seen=caller.seen)
    full = Caller(caller.core, streams=EventStreams(0), seen=caller.seen)
    for operation in openapi.operations():
        method, path = concrete(operation)
        body = BODIES.get(operation.definition["operationId"])
        sent = {} if body is None else {"json": body}
        guarded.call(method, path, **sent)
        caller.call(method, path, {"Host": "rebound.example"}, **sent)
        caller.call(method, path, data=b"x" * (MAX_BODY + 1))
        if method == "POST":
            caller.call(method, path, {"Origin": "http://localhost.example"}, **sent)
        if "{run_id}" in operation.path:
            caller.call(method, path, **sent)
        if body is not None:
            caller.call(method, path, data=b"{}", content_type="text/plain")
            caller.call(method, path, data=b"{", content_type="application/json")
    caller.get("/v1/runs?stat=failed")
    run_id = caller.get("/v1/runs").json["runs"][-1]["run_id"]
    caller.get(f"/v1/runs/{run_id}/events?last_event_id=-1")
    full.get(f"/v1/runs/{run_id}/events")


def what_is_no_http(caller: Caller) -> None:
    """Send every operation requests that the WSGI server itself rejects, in plain text."""
    wrong = {
        400: b"no header\r\n\r\n",
        413: b"Content-Length: 99999999\r\n\r\n",
        431: b"X: " + b"x" * 70_000 + b"\r\n\r\n",
    }
    with served(caller) as port:
        for operation in openapi.operations():
            method, path = concrete(operation)
            for status, rest in wrong.items():
                answer = exchange(port, f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n".encode() + rest)
                assert (answer.status, answer.headers["Content-Type"]) == (status, "text/plain; charset=utf-8")
                caller.hold(method, path, answer)


class Refusing:
    """Commands that reject everything."""

    def __init__(self, code: str) -> None:
        self._code = code

    def _refuse(self, *_: object) -> dict[str, Any]:
        raise ApiError(self._code, "because", "do something else")

    create = reply = cancel = continue_run = _refuse


def what_the_core_refuses(caller: Caller, run_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trigger the errors that no engine in this test causes."""
    for code in ("PROMPT_REFUSED", "ENGINE_UNSAFE", "REPLY_NOT_AN_OPTION"):
        with monkeypatch.context() as patch:
            patch.setattr(caller.core, "commands", Refusing(code))
            caller.post(f"/v1/runs/{run_id}/interaction/reply", BODIES["replyToInteraction"])
            if code != "REPLY_NOT_AN_OPTION":
                caller.post("/v1/runs", ASKS)
                caller.post(f"/v1/runs/{run_id}/continue", BODIES["continueRun"])
    with monkeypatch.context() as patch:
        patch.setattr(Server, "ready", False)
        caller.get("/readyz")


def what_fails_with_the_disk(caller: Caller, run_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the store and the system fail in every operation that uses them."""

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    def lacking() -> None:
        raise MachineError("no temporary directory can be made", "make room")

    with monkeypatch.context() as patch:
        patch.setattr(caller.core.store, "read", full)
        patch.setattr(caller.core.store, "writing", full)
        patch.setattr(caller.core.engines, "every", lacking)
        for operation in all_but("/healthz", "/readyz", "/openapi.json"):
            method, path = concrete(operation, run_id)
            body = BODIES.get(operation.definition["operationId"])
            answer = caller.call(method, path, **({} if body is None else {"json": body}))
            assert answer.json["code"] == "STORE_UNAVAILABLE"


def test_a_field_of_earlier_releases_is_refused_with_what_to_do(open_house: ServerEnv) -> None:
    """Nothing is created, whatever its value is."""
    caller = Caller(open_house.server)
    for seconds in (0, 60):
        refused = caller.post("/v1/runs", ASKS | {"warm_wait_sec": seconds})
        assert (refused.status, refused.json["code"]) == (422, "INVALID_REQUEST")
        assert "warm_wait_sec" in refused.json["detail"]
        assert "sticky_process" in refused.json["hint"]


def test_routes_are_the_operations(open_house: ServerEnv) -> None:
    """The app has a route for every operation, and no other routes except the pages."""
    rules = Caller(open_house.server).app.url_map.iter_rules()
    routes = {
        (rule.rule.replace("<", "{").replace(">", "}"), method.lower())
        for rule in rules
        if not rule.endpoint.startswith(f"{PAGE}.")
        for method in (rule.methods or set()) - {"HEAD"}
    }
    assert routes == {(operation.path, operation.method) for operation in openapi.operations()}


def test_runs_are_paged_and_filtered(closed_server_env: ServerEnv) -> None:
    """Pages follow one another by `next`, newest first, without gap or repetition; filters hold over pages."""
    closed_server_env.cli_env.engine("codex", d.codex("x"))
    closed_server_env.cli_env.engine("gemini", d.gemini("x"))
    server = Server(closed_server_env.settings)  # not started, so all runs stay queued
    caller = Caller(server)
    created = [
        caller.post("/v1/runs", {"engine": engine, "prompt": "x"}).json["run_id"]
        for engine in ("codex", "gemini", "codex", "codex")
    ]
    caller.post(f"/v1/runs/{created[0]}/cancel")
    seen, following = [], "/v1/runs?limit=2&engine=codex"
    while following:
        page = caller.get(following).json
        seen += [run["run_id"] for run in page["runs"]]
        following = page["next"]
    assert seen == [created[3], created[2], created[0]]
    canceled = caller.get("/v1/runs?state=canceled").json
    assert ([run["run_id"] for run in canceled["runs"]], canceled["next"]) == ([created[0]], None)
    assert caller.get("/v1/runs?state=canceled&engine=gemini").json["runs"] == []
    server.close()


def test_a_question_is_shown_only_while_it_is_open(open_house: ServerEnv) -> None:
    """`pending` holds the agent's question while it is open, and null before and after."""
    caller = Caller(open_house.server)
    run_id = caller.post("/v1/runs", ASKS).json["run_id"]
    question = open_house.question(run_id)
    assert caller.get(f"/v1/runs/{run_id}/interaction").json["pending"] == {
        "interaction_id": question.interaction_id,
        "kind": "choose_one",
        "prompt": "Which colour?",
        "options": ["red", "blue"],
        "required_fields": [],
        "context": {"why": "paint"},
        "asked_at": question.asked_at,
    }
    caller.post(f"/v1/runs/{run_id}/cancel")
    assert caller.get(f"/v1/runs/{run_id}/interaction").json == {
        "state": "canceled",
        "pending": None,
        "unsent_reply": None,
    }
