"""Tests of the command `turngate serve` in a separate process."""

import json
import os
import re
import signal
import socket
import sys
import time
import urllib.error
import urllib.request
from typing import Any

import psutil
import pytest

from tests.patience import PATIENCE
from tests.probes.simulate.played import at_known_release
from tests.reference import cli_env as d
from tests.reference.caller import TOKEN
from tests.reference.cli_env import CliEnv
from turngate import engine_names
from turngate_probes.simulate.simulated_process import install
from turngate_reference.server.web.listener import bound


class ServeProcess:
    """A running `turngate serve` on a free port."""

    def __init__(self, cli_env: CliEnv, *words: str) -> None:
        self.process = cli_env.spawn("serve", "--port", "0", "--verify", "off", *words)
        assert self.process.stdout
        self.line = self.process.stdout.readline()
        shown_url = re.search(r"http://\S+", self.line)
        assert shown_url, self.process.communicate()
        self.url = shown_url[0]
        token = cli_env.data / "token"
        self.headers = {"Authorization": f"Bearer {token.read_text().strip()}"} if token.exists() else {}

    def read(self, path: str, **headers: str) -> bytes:
        """Send a GET with the server's own token, or with these headers instead."""
        headers = headers or self.headers
        request = urllib.request.Request(self.url + path, headers=headers)
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:
            body: bytes = response.read()
            return body

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """Send a POST."""
        headers = {"Content-Type": "application/json", **self.headers}
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:
            return json.load(response)

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """Send a signal; return the exit code and stderr."""
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, err


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP])
def test_serve_runs_until_it_is_told_to_end(cli_env: CliEnv, number: signal.Signals) -> None:
    """The startup line says all that a client needs; a signal ends the server with exit code 0."""
    cli_env.engine("codex", d.codex("x"))
    # under nohup, the tests and the command would inherit that SIGHUP is ignored
    before = signal.signal(number, signal.SIG_DFL)
    try:
        serving = ServeProcess(cli_env, "--slots", "1")
    finally:
        signal.signal(number, before)
    try:
        assert json.loads(serving.read("/readyz")) == {"status": "ready"}
        assert str(cli_env.data) in serving.line
        assert "1 slot;" in serving.line
        assert "engines: codex)" in serving.line
    finally:
        code, err = serving.end(number)
    assert (code, err) == (0, "")


@pytest.mark.long
def test_serve_names_simulated_engines_as_such(cli_env: CliEnv) -> None:
    """The startup output marks simulated engines."""
    cli_env.engine("codex", d.codex("x"))
    install(at_known_release("gemini"), cli_env.path)
    serving = ServeProcess(cli_env)
    serving.end(signal.SIGTERM)
    assert "engines: codex, gemini (simulated))" in serving.line


@pytest.mark.long
def test_serve_without_engines_says_how_to_get_one(cli_env: CliEnv) -> None:
    """It runs, lists the engines it looked for, and prints install commands that can be typed."""
    serving = ServeProcess(cli_env)
    assert serving.process.stdout
    reported: list[str] = []
    assert serving.process.stdout.readline().startswith("log in: http")
    assert "turngate serve --print-link prints another" in serving.process.stdout.readline()
    for line in serving.process.stdout:
        reported.append(line.strip())
        if "&&" in line:
            break
    code, _ = serving.end(signal.SIGTERM)
    assert code == 0
    assert "engines: none on PATH" in serving.line
    assert f"looked for {', '.join(engine_names())}" in reported[0]
    assert "npm install --global @openai/codex" in reported
    simulate, _, path = reported[-1].partition(" && ")
    assert path == "export PATH=$PWD/bin:$PATH"
    assert cli_env.type(*simulate.replace("./bin", str(cli_env.path)).split()[1:]).code == 0
    again = ServeProcess(cli_env)
    again.end(signal.SIGTERM)
    assert "engines: codex (simulated))" in again.line


@pytest.mark.long
def test_serve_can_be_ended_while_it_verifies_first(cli_env: CliEnv) -> None:
    """It exits cleanly without having served, and the engine being verified is ended, too."""
    cli_env.path.mkdir()
    os.mkfifo(cli_env.root / "asked")
    engine = cli_env.path / "codex"
    engine.write_text(f"#!/bin/sh\necho $$ > {cli_env.root}/asked\nexec sleep 600\n")
    engine.chmod(0o755)
    with cli_env.spawn("serve", "--port", "0", "--verify", "wait") as process:
        pid = int((cli_env.root / "asked").read_text())
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=PATIENCE)
    assert (process.returncode, *said) == (0, "", "")
    assert not psutil.pid_exists(pid)


LEAVES = """#!/bin/sh
case "$*" in *--version*) echo codex-cli 0.169.0; exit ;; *--help*) exit ;; esac
cd "${0%/*}"
(setsid sh -c 'echo $$ > met; read line < go' &) > /dev/null 2>&1
echo left > settled
exec sleep 600
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux adopts processes")
def test_serve_leaves_no_zombie_while_a_turn_runs(cli_env: CliEnv) -> None:
    """A process that an engine left is reaped as soon as it ends, though no turn ends."""
    cli_env.path.mkdir()
    for name in ("met", "settled", "go"):
        os.mkfifo(cli_env.path / name)
    (cli_env.path / "codex").write_text(LEAVES)
    (cli_env.path / "codex").chmod(0o755)
    serving = ServeProcess(cli_env)
    try:
        serving.post("/v1/runs", {"engine": "codex", "prompt": "x"})
        left = psutil.Process(int((cli_env.path / "met").read_text()))
        # its parent has ended by then
        assert (cli_env.path / "settled").read_text() == "left\n"
        assert left.ppid() == serving.process.pid
        (cli_env.path / "go").write_text("go\n")
        left.wait(PATIENCE)
    finally:
        serving.end(signal.SIGTERM)


@pytest.mark.long
def test_serve_counts_turns(cli_env: CliEnv) -> None:
    """A turn that the server ran is counted in the metrics."""
    cli_env.engine("codex", d.codex("x"))
    serving = ServeProcess(cli_env)
    try:
        serving.post("/v1/runs", {"engine": "codex", "prompt": "x"})
        deadline = time.monotonic() + PATIENCE
        while b'turngate_turns_total{engine="codex",outcome="final"} 1.0' not in serving.read("/metrics"):
            assert time.monotonic() < deadline
    finally:
        serving.end(signal.SIGTERM)


@pytest.mark.long
def test_serve_logs_the_arguments_of_engines(cli_env: CliEnv) -> None:
    """At level debug, each argv is logged without the prompt."""
    cli_env.engine("codex", d.codex("x"))
    serving = ServeProcess(cli_env, "--log-level", "debug")
    try:
        reported = serving.post("/v1/runs", {"engine": "codex", "prompt": "the secret plan"})
        serving.read(reported["links"]["events"])
    finally:
        _, err = serving.end(signal.SIGTERM)
    assert "codex exec --json" in err
    assert "the secret plan" not in err


@pytest.mark.long
def test_an_open_stream_does_not_keep_the_server(cli_env: CliEnv) -> None:
    """Stopping the server ends open streams and running engines."""
    cli_env.fifos()
    cli_env.engine("codex", d.codex("x", more=[["meet"]]))
    serving = ServeProcess(cli_env)
    reported = serving.post("/v1/runs", {"engine": "codex", "prompt": "x"})
    pid = cli_env.meet()
    followed = urllib.request.Request(serving.url + reported["links"]["events"], headers=serving.headers)
    with urllib.request.urlopen(followed, timeout=PATIENCE) as stream:
        assert stream.readline() == b"retry: 1000\n"
        code, _ = serving.end(signal.SIGTERM)
        stream.read()
    assert code == 0
    assert not psutil.pid_exists(pid)


def refusal(serving: ServeProcess, path: str, **headers: str) -> int:
    """Send a GET that is refused; return the status."""
    with pytest.raises(urllib.error.HTTPError) as refused:
        serving.read(path, **headers)
    refused.value.close()
    return refused.value.code


@pytest.mark.long
def test_nobody_else_on_the_machine_starts_a_run(cli_env: CliEnv) -> None:
    """By default all but /healthz needs the token, which only the user can read, and which commands find."""
    cli_env.engine("codex", d.codex("x"))
    tokens = []
    for _ in range(2):
        serving = ServeProcess(cli_env)
        try:
            assert json.loads(serving.read("/healthz", Accept="*/*")) == {"status": "ok"}
            for path in ("/readyz", "/v1/runs", "/metrics", "/openapi.json", "/"):
                assert refusal(serving, path, Accept="*/*") == 401
                assert refusal(serving, path, Authorization=f"Bearer {TOKEN}") == 401
            assert (cli_env.data / "token").stat().st_mode & 0o777 == 0o600
            started = serving.post("/v1/runs", {"engine": "codex", "prompt": "x"})
            assert started["handle"] in cli_env.type("handles").out
            tokens.append(cli_env.type("serve", "--print-token").out)
            assert serving.headers["Authorization"] == f"Bearer {tokens[-1].strip()}"
        finally:
            serving.end(signal.SIGTERM)
    assert tokens[0] == tokens[1] == cli_env.type("serve", "--print-token").out


@pytest.mark.long
def test_a_browser_logs_in_by_an_address_that_is_nowhere_logged(cli_env: CliEnv) -> None:
    """The address printed at the start, and each further one, works once; no file or log has it or the token."""
    cli_env.engine("codex", d.codex("x"))
    serving = ServeProcess(cli_env, "--log-level", "debug")
    assert serving.process.stdout
    try:
        reported = serving.post("/v1/runs", {"engine": "codex", "prompt": "x"})
        printed = serving.process.stdout.readline().split()[2]
        links = [printed, cli_env.type("serve", "--print-link").out.strip()]
        for link in links:
            assert link.startswith(f"{serving.url}/login?code=")
            opened = []
            for _ in range(2):
                browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
                try:
                    with browser.open(link, timeout=PATIENCE) as page:
                        opened.append((page.url, b"waiting for you" in page.read()))
                except urllib.error.HTTPError as refused:
                    refused.close()
                    raise
            assert opened == [(f"{serving.url}/", True), (f"{serving.url}/login?void=1", False)]
        events = serving.read(reported["links"]["events"])
    finally:
        _, err = serving.end(signal.SIGTERM)
    token = cli_env.type("serve", "--print-token").out.strip()
    secrets = [token.encode(), *(link.partition("code=")[2].encode() for link in links)]
    kept = {file: file.read_bytes() for file in cli_env.data.rglob("*") if file.is_file()}
    assert [file.name for file, content in kept.items() if any(secret in content for secret in secrets)] == ["token"]
    assert not any(secret in events + err.encode() for secret in secrets)


@pytest.mark.long
def test_serve_can_need_no_token(cli_env: CliEnv) -> None:
    """With --no-token everybody on the machine is answered, no token is made, and there is none to print."""
    serving = ServeProcess(cli_env, "--no-token")
    try:
        assert serving.headers == {}
        assert json.loads(serving.read("/v1/runs", Accept="*/*"))["runs"] == []
        for words in (("serve", "--print-token"), ("serve", "--print-link")):
            said = cli_env.type(*words)
            assert (said.code, said.out) == (2, "")
            assert "the server needs no token" in said.err
    finally:
        serving.end(signal.SIGTERM)
    assert not (cli_env.data / "token").exists()


@pytest.mark.long
def test_serve_does_not_trust_a_token_that_others_know(cli_env: CliEnv) -> None:
    """A token file that others could have read ends the start with exit code 2, and what to do."""
    ServeProcess(cli_env).end(signal.SIGTERM)
    (cli_env.data / "token").chmod(0o644)
    refused = cli_env.type("serve", "--port", "0")
    assert (refused.code, refused.out) == (2, "")
    assert "somebody else could have read" in refused.err
    assert "delete it" in refused.err


@pytest.mark.long
def test_serve_asks_for_the_token_of_its_file(cli_env: CliEnv) -> None:
    """Requests then need the token; a token file that others can read causes a warning."""
    file = cli_env.root / "token"
    file.write_text(TOKEN)
    file.chmod(0o644)
    serving = ServeProcess(cli_env, "--token-file", str(file))
    try:
        assert json.loads(serving.read("/healthz")) == {"status": "ok"}
        assert json.loads(serving.read("/readyz", Authorization=f"Bearer {TOKEN}")) == {"status": "ready"}
        assert refusal(serving, "/readyz") == 401
        assert cli_env.type("serve", "--print-token").out == f"{TOKEN}\n"
        assert not (cli_env.data / "token").exists()
    finally:
        _, err = serving.end(signal.SIGTERM)
    assert f"Warning: {file} can be read by others" in err


@pytest.mark.long
def test_one_server_a_data_directory(cli_env: CliEnv) -> None:
    """A second server on the data directory is rejected, and the error names the first one's address."""
    serving = ServeProcess(cli_env)
    try:
        for port in ("0", serving.url.rpartition(":")[2]):
            refused = cli_env.type("serve", "--port", port)
            assert refused.code == 2
            assert f"in use by the server at {serving.url}" in refused.err
    finally:
        serving.end(signal.SIGTERM)


def test_a_port_in_use_is_told(cli_env: CliEnv) -> None:
    """The port is checked before the data directory is touched."""
    with bound(socket.AF_INET, ("127.0.0.1", 0)) as taken:
        refused = cli_env.type("serve", "--port", str(taken.getsockname()[1]))
    assert refused.code == 2
    assert "choose another --port" in refused.err
    assert not cli_env.data.exists()


def test_serve_teaches(cli_env: CliEnv) -> None:
    """The help shows usage, exit codes and where to read more."""
    said = cli_env.type("serve", "--help")
    assert said.code == 0
    for words in ("turngate serve --host", "/openapi.json", "Exit codes", "127.0.0.1", "8321"):
        assert words in said.out


def test_the_list_of_commands_shows_serve(cli_env: CliEnv) -> None:
    """`turngate --help` describes `serve` without importing it."""
    assert "Run the reference server" in cli_env.type("--help").out
