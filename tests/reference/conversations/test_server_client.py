"""Replies of a terminal to the server that keeps the process of a run, on a real socket."""

import http.client
import json
from collections.abc import Iterator

import pytest

from tests.reference.caller import TOKEN, Caller
from tests.reference.server.sticky_env import create, put_engine
from tests.reference.server_env import ASK, ServerEnv, final
from tests.reference.wire import served
from turngate import MachineError, NotFoundError
from turngate_reference.access import make_token
from turngate_reference.conversations import server_client
from turngate_reference.data_dir import DataDir, RunningServer, locked
from turngate_reference.server.store import runs
from turngate_reference.server.web.security import RequestCheck
from turngate_reference.states import State


@pytest.fixture(name="env")
def _env(closed_server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerEnv]:
    """Serve a sticky Codex; requests need the token."""
    put_engine(closed_server_env)
    data = DataDir(closed_server_env.cli_env.data)
    file = closed_server_env.cli_env.root / "chosen"
    file.write_text(f"{TOKEN}\n")
    with closed_server_env.opened() as server, served(Caller(server, RequestCheck(TOKEN))) as port:
        running = RunningServer(f"http://127.0.0.1:{port}", file)
        monkeypatch.setattr(server_client, "running_server", lambda asked: running if asked.root == data.root else None)
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
        yield closed_server_env


@pytest.mark.parametrize("words, sent", [(("BLUE",), "blue"), (("green",), "green"), (("--", "--yolo"), "--yolo")])
def test_a_reply_reaches_the_kept_process(env: ServerEnv, words: tuple[str, ...], sent: str) -> None:
    """Text is sent unchanged, except for the case of an option; the handle may be shortened."""
    run_id = create(env, f"say {ASK}")
    env.question(run_id)
    said = env.cli_env.type("resume", run_id[-8:-3], *words)
    assert (said.code, said.out, said.err) == (0, f"sent to {run_id[-8:]}: {sent}\n", "")
    env.wait(run_id, State.SUCCEEDED, State.FAILED)
    assert runs.last_answer(env.server.store, run_id, 2) == sent


def test_the_record_says_what_became_of_the_run(env: ServerEnv) -> None:
    """With --json, stdout is the handle record since the reply."""
    run_id = create(env, f"say {ASK}")
    env.question(run_id)
    said = env.cli_env.type("resume", "--json", run_id[-8:], f"do: say {final(x=1)}")
    assert said.code == 0, said.err
    shown = json.loads(said.out)
    assert (shown["handle"], shown["served"]) == (run_id[-8:], True)
    assert shown["state"] in ("running", "succeeded")
    assert env.wait(run_id, State.SUCCEEDED).final_data == {"x": 1}


def test_a_refused_reply_changes_nothing(env: ServerEnv) -> None:
    """What the server refuses exits with 2 and its reason, and the run keeps waiting."""
    run_id = create(env, f"say {ASK}")
    env.question(run_id)
    said = env.cli_env.type("resume", run_id[-8:], " ")
    assert (said.code, said.out, "white space" in said.err) == (2, "", True)
    assert env.run(run_id).state is State.WAITING_USER


def test_no_answer_of_a_server_forges_a_line(env: ServerEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """Detail and hint of a problem stay on one line each, and their control characters are escaped."""
    run_id = create(env, f"say {ASK}")
    env.question(run_id)
    problem = {"code": "X", "detail": "no\nhandle k3n9x2ab\x1b[2J", "hint": "a\nb"}
    monkeypatch.setattr(http.client.HTTPResponse, "read", lambda _: json.dumps(problem).encode())
    refused = env.cli_env.type("resume", run_id[-8:], " ")
    assert refused.code == 2
    assert refused.err == "Error: no\\nhandle k3n9x2ab\\x1b[2J\na\\nb\n"


def test_without_a_server_that_answers_the_run_keeps_waiting(env: ServerEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """No server, or none that answers as one does, is an error with a hint."""
    run_id = create(env, f"say {ASK}")
    env.question(run_id)
    for running, why in ((None, "start one: turngate serve"), (RunningServer("http://127.0.0.1:1"), "did not answer")):
        monkeypatch.setattr(server_client, "running_server", lambda _, running=running: running)
        said = env.cli_env.type("resume", run_id[-8:], "blue")
        assert (said.code, why in said.err) == (2, True), said.err
    assert env.run(run_id).state is State.WAITING_USER


def test_only_the_server_on_the_data_directory_gets_its_token(
    server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address is that of the server that holds the lock; one that was killed left it, but gets nothing."""
    data = DataDir(server_env.cli_env.root / "elsewhere")
    data.make()
    token = make_token(data)
    asked: list[tuple[str, int, str]] = []

    def refuse(
        self: http.client.HTTPConnection, _method: str, _path: str, _body: bytes, headers: dict[str, str]
    ) -> None:
        asked.append((self.host, self.port, headers["Authorization"]))
        raise OSError("stop here")

    monkeypatch.setattr(http.client.HTTPConnection, "request", refuse)
    with (
        locked(data.server_lock, "x", server=RunningServer("http://127.0.0.1:1", data.token)),
        pytest.raises(MachineError),
    ):
        server_client.send_reply(data, "/v1/runs/r/interaction/reply", "q", "blue")
    assert asked == [("127.0.0.1", 1, f"Bearer {token}")]
    with pytest.raises(NotFoundError, match="no server runs on"):
        server_client.send_reply(data, "/v1/runs/r/interaction/reply", "q", "blue")
    assert len(asked) == 1
