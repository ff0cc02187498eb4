"""Tests of the terminal's client for a running server."""

import http.client
import json

import pytest

from tests.reference.caller import TOKEN, Caller
from tests.reference.server_env import ServerEnv
from tests.reference.wire import served
from turngate.errors import MachineError, NotFoundError, ServerRefusedError, UsageError
from turngate_reference.access import make_token
from turngate_reference.conversations.cli.runs import find_server, info
from turngate_reference.data_dir import DataDir, RunningServer, locked
from turngate_reference.server.web.security import RequestCheck

RUN = {
    "run_id": "r",
    "handle": "h",
    "engine": "codex",
    "state": "queued",
    "turn_index": 0,
    "created_at": "t",
    "more": {},
}


def test_the_nearest_address_counts(tmp_path: object, server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """The --url option wins over TURNGATE_URL, which wins over the server on the data directory."""
    data = DataDir(server_env.cli_env.root / "elsewhere")
    data.make()
    with pytest.raises(NotFoundError, match="no server runs on"):
        find_server(None, data)
    with locked(data.server_lock, "x", server=RunningServer("http://127.0.0.1:1")):
        assert find_server(None, data).url == "http://127.0.0.1:1"
        monkeypatch.setenv("TURNGATE_URL", "http://127.0.0.1:2")
        assert find_server(None, data).url == "http://127.0.0.1:2"
        assert find_server("https://host/x", data).url == "https://host/x"


@pytest.mark.parametrize("url", ["127.0.0.1:8321", "http://", "ftp://x", "x"])
def test_what_is_no_address_is_refused(server_env: ServerEnv, url: str) -> None:
    """An invalid address is rejected, and the hint shows a valid one."""
    with pytest.raises(UsageError, match="no address") as refused:
        find_server(url, DataDir(server_env.cli_env.data))
    assert "http://127.0.0.1:8321" in refused.value.hint


def test_what_is_not_there_is_said(server_env: ServerEnv) -> None:
    """An address where no server answers is an error with a hint."""
    with pytest.raises(MachineError, match="did not answer as turngate serve does"):
        find_server("http://127.0.0.1:1", DataDir(server_env.cli_env.data)).newest(1)


def test_no_answer_of_a_server_forges_a_line(server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """Detail and hint of a problem stay on one line each, and their control characters are escaped."""
    problem = {"code": "X", "detail": "no\nhandle k3n9x2ab\x1b[2J", "hint": "a\nb"}
    monkeypatch.setattr(http.client.HTTPResponse, "read", lambda _: json.dumps(problem).encode())
    with served(Caller(server_env.server, RequestCheck(TOKEN))) as port:
        refused = server_env.cli_env.type("runs", "--url", f"http://127.0.0.1:{port}")
    assert refused.code == 2
    assert refused.err == "Error: no\\nhandle k3n9x2ab\\x1b[2J\na\\nb\n"


def test_a_token_is_taken_from_the_environment(server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the token is missing, the error names its variable; the proxy is not used."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    data = DataDir(server_env.cli_env.data)
    with served(Caller(server_env.server, RequestCheck(TOKEN))) as port:
        with pytest.raises(ServerRefusedError, match="needs its token") as refused:
            find_server(f"http://127.0.0.1:{port}", data).waiting()
        assert "TURNGATE_TOKEN" in refused.value.hint
        monkeypatch.setenv("TURNGATE_TOKEN", f"{TOKEN}\n")
        assert find_server(f"http://127.0.0.1:{port}/", data).waiting() == []


def test_only_the_server_on_the_data_directory_gets_its_token(
    server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any other address gets no token; TURNGATE_TOKEN outranks the file; a server without a token gets none."""
    data = DataDir(server_env.cli_env.root / "elsewhere")
    data.make()
    own = make_token(data)
    chosen = server_env.cli_env.root / "chosen"
    chosen.write_text(f"{TOKEN}\n")
    url = "http://127.0.0.1:1"
    for file, token in ((data.token, own), (chosen, TOKEN), (None, "")):
        with locked(data.server_lock, "x", server=RunningServer(url, file)):
            assert (find_server(None, data).token, find_server(f"{url}/", data).token) == (token, token)
            for other in (
                "http://127.0.0.1:2",
                "http://localhost:1",
                "https://127.0.0.1:1",
                "http://127.0.0.1:1.example",
            ):
                assert find_server(other, data).token == ""
    assert find_server(url, data).token == ""  # nobody holds the lock, so this may be anybody
    monkeypatch.setenv("TURNGATE_TOKEN", TOKEN)
    with locked(data.server_lock, "x", server=RunningServer(url, data.token)):
        assert find_server(None, data).token == TOKEN


def test_what_is_not_known_of_a_run_is_left_out() -> None:
    """Fields that a newer server adds are ignored."""
    assert info(RUN).handle == "h"
    assert info(RUN).pending is None
