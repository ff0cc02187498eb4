"""The command `stub` as a process: its addresses, its answers, its log, and how it ends."""

import errno
import json
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

import pytest

from turngate import cli

Start = Callable[..., tuple["subprocess.Popen[str]", dict[str, Any]]]
PROMPT = {"messages": [{"role": "user", "content": "which colour?"}]}


@pytest.fixture(name="start")
def _start() -> Iterator[Start]:
    """Return a function that starts the command and returns its process and the document that it prints."""
    with ExitStack() as running:

        def start(*options: str) -> tuple["subprocess.Popen[str]", dict[str, Any]]:
            command = [sys.executable, "-c", "from turngate.cli import main; main()", "stub", "--json", *options]
            process = running.enter_context(
                subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            )
            running.callback(process.kill)
            assert process.stdout
            return process, json.loads(process.stdout.readline())

        yield start


def post(url: str, body: object = PROMPT) -> dict[str, Any]:
    """Return what a POST of this document is answered."""
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode())) as response:
        return dict(json.load(response))


def said(url: str) -> str:
    """Return what the model says to a prompt."""
    return str(post(url)["choices"][0]["message"]["content"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_answers_and_logs_until_it_is_stopped(start: Start, number: signal.Signals) -> None:
    """Every protocol's base URL works, with and without /v1. Each request is logged. A signal ends it with 0."""
    process, printed = start("--reply", "It is blue.")
    bases = printed["base_urls"]
    assert said(f"{bases['openai']}/chat/completions") == "It is blue."
    assert said(f"{printed['url']}/chat/completions") == "It is blue."
    assert post(f"{bases['anthropic']}/v1/messages")["content"][0]["text"] == "It is blue."
    call = f"{bases['gemini']}/v1beta/models/any:generateContent"
    parts = post(call, {"contents": [{"parts": [{"text": "which colour?"}]}]})["candidates"][0]["content"]["parts"]
    assert parts[0]["text"] == "It is blue."
    process.send_signal(number)
    rest, log = process.communicate(timeout=60)
    assert (process.returncode, rest) == (0, "")
    assert log.splitlines()[:3] == [
        "POST /v1/chat/completions (openai.chat) 'which colour?': text",
        "POST /chat/completions (openai.chat) 'which colour?': text",
        "POST /v1/messages (anthropic) 'which colour?': text",
    ]


def test_replies_come_in_order_after_the_tool_call(start: Start) -> None:
    """The model asks for the tool until it gets a result, then says one reply after the other, and repeats the last."""
    _, printed = start("--tool-call", 'look={"at": "sky"}', "--reply", "one", "--reply", "two")
    url = f"{printed['url']}/chat/completions"
    call = post(url)["choices"][0]["message"]["tool_calls"][0]["function"]
    assert (call["name"], json.loads(call["arguments"])) == ("look", {"at": "sky"})
    after = {"messages": [*PROMPT["messages"], {"role": "assistant"}, {"role": "tool", "content": "x"}]}
    assert [post(url, after)["choices"][0]["message"]["content"] for _ in range(3)] == ["one", "two", "two"]


def test_it_refuses_as_asked_and_as_a_proxy(start: Start) -> None:
    """A status refuses every prompt. A request to another machine is refused and logged."""
    process, printed = start("--refuse", "429")
    with pytest.raises(HTTPError) as refused:
        post(f"{printed['url']}/chat/completions")
    assert refused.value.code == 429
    refused.value.close()
    with socket.create_connection((urlsplit(printed["url"]).hostname or "", urlsplit(printed["url"]).port or 0)) as one:
        one.sendall(b"CONNECT elsewhere.test:443 HTTP/1.1\r\n\r\n")
        assert one.recv(100).startswith(b"HTTP/1.1 403")
    process.send_signal(signal.SIGINT)
    assert "refused CONNECT to elsewhere.test:443\n" in process.communicate(timeout=60)[1]


def test_it_listens_on_loopback_at_the_port(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    """A chosen port is taken, on 127.0.0.1 alone; if another process has it, the error says so."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    _, printed = start("--port", str(port))
    assert printed["url"] == f"http://127.0.0.1:{port}"
    with socket.socket() as other:
        assert other.connect_ex(("127.0.0.2", port)) == errno.ECONNREFUSED
    assert cli.run(["stub", "--port", str(port)]) == 2
    assert f"port {port} can't be used: Address already in use" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text, problem",
    [
        ("look=at", "the arguments of look are not JSON"),
        ("look=[]", "write NAME="),
        ("={}", "write NAME="),
        ('{"name": "look"}', "write NAME="),
    ],
)
def test_a_wrong_tool_call_is_refused(text: str, problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A tool call without a name or without a JSON object is a usage error."""
    assert cli.run(["stub", "--tool-call", text]) == 2
    assert problem in capsys.readouterr().err
