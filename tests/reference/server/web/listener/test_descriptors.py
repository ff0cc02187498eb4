"""Tests of how many descriptors clients may hold, and that runs always have theirs."""

import http.client
import json
import re
import resource
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import pytest

from tests.patience import PATIENCE
from tests.reference import cli_env as d
from tests.reference.cli_env import TURNGATE, CliEnv
from tests.reference.server_env import final
from tests.reference.wire import following
from turngate import MachineError
from turngate_reference.server.web import listener
from turngate_reference.server.web.listener import LEAST, MOST, connections, raise_limit

HALVES = (
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n",
    b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{",
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n",
)


@contextmanager
def serving(allowed: int) -> Iterator[int]:
    """Run a server with this limit of open files; yield its port. It must exit cleanly and log no error."""
    script = f"ulimit -n {allowed} && exec {TURNGATE} serve --port 0 --verify off --no-token"
    pipe = subprocess.PIPE
    with subprocess.Popen(("/bin/sh", "-c", script), stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert process.stdout
            shown = re.search(r"http://127\.0\.0\.1:(\d+)", process.stdout.readline())
            assert shown
            yield int(shown[1])
        finally:
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (0, "")


def ask(
    client: http.client.HTTPConnection, method: str, path: str, body: dict[str, str] | None = None
) -> tuple[int, Any]:
    """Make one request."""
    client.request(method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"})
    response = client.getresponse()
    return response.status, json.loads(response.read())


def hold(opened: ExitStack, port: int, sent: bytes) -> socket.socket:
    """Connect as a client that sends this and reads nothing."""
    client = opened.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE))
    client.sendall(sent)
    return client


@pytest.mark.long
@pytest.mark.nightly
def test_connections_take_no_descriptor_of_runs(cli_env: CliEnv) -> None:
    """With 1,024 open files and more idle connections than fit, two runs of clients that are connected succeed."""
    cli_env.engine("codex", d.codex(final(x=1)))
    with serving(1024) as port, ExitStack() as opened:
        clients = [
            opened.enter_context(closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)))
            for _ in range(2)
        ]
        assert [ask(client, "GET", "/healthz") for client in clients] == [(200, {"status": "ok"})] * 2
        for _ in range(1100):
            hold(opened, port, b"")
        created = [ask(client, "POST", "/v1/runs", {"engine": "codex", "prompt": "x"}) for client in clients]
        assert [status for status, _ in created] == [202, 202]
        for client, (_, reported) in zip(clients, created, strict=True):
            client.request("GET", reported["links"]["events"])
            assert re.findall(rb'"state": "(\w+)"', client.getresponse().read()) == [
                b"queued",
                b"running",
                b"succeeded",
            ]


@pytest.mark.long
@pytest.mark.nightly
def test_streams_and_slow_clients_stop_nobody(cli_env: CliEnv) -> None:
    """While 100 event streams are open, and 200 clients send or read only half, or nothing, the server runs."""
    cli_env.engine("codex", d.codex(final(x=1)))
    with serving(1024) as port, ExitStack() as opened:
        for number in range(200):
            hold(opened, port, HALVES[number % len(HALVES)])
        for _ in range(100):
            stream = hold(opened, port, b"GET /live?after=0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert stream.recv(2**16).startswith(b"HTTP/1.1 200 OK")
        client = opened.enter_context(closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)))
        status, reported = ask(client, "POST", "/v1/runs", {"engine": "codex", "prompt": "x"})
        assert status == 202
        with following(port, reported["links"]["events"]) as followed:
            assert followed.all()[-1].data["state"] == "succeeded"


def test_connections_leave_what_slots_need() -> None:
    """More slots leave fewer connections, which are also limited to a maximum."""
    assert connections(100_000, 4) == MOST
    few, fewer = connections(1024, 4), connections(1024, 5)
    assert LEAST <= fewer < few < 1024 - listener.RESERVED
    with pytest.raises(MachineError, match=r"1000 slots need .* open files, but the limit is 1024") as refused:
        connections(1024, 1000)
    assert "or lower --slots" in refused.value.hint


def test_the_limit_is_raised_to_what_the_system_allows() -> None:
    """The limit is raised to at most `CEILING`; a limit that can't be raised is used as it is."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
        raised = raise_limit()
        assert raised == resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 512
        assert raised <= listener.CEILING
        assert raise_limit() == raised
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.long
@pytest.mark.parametrize("allowed", [12, 14, 100])
def test_a_server_that_may_open_too_few_files_does_not_start(cli_env: CliEnv, allowed: int) -> None:
    """The error says how many files it needs, before anything else fails for want of them."""
    script = f"ulimit -n {allowed} && exec {TURNGATE} serve --port 0 --data-dir {cli_env.data}"
    done = subprocess.run(("sh", "-c", script), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.match(r"Error: 4 slots need \d+ open files, but the limit is \d+\nraise the limit", done.stderr)
    assert len(done.stderr.splitlines()) == 2
