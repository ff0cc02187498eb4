"""The minimal server, started and used over HTTP as its user would, with simulated engines."""

import ast
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.patience import PATIENCE
from turngate import load_contract
from turngate.process.sessions import TAG
from turngate_probes.simulate.simulated_process import install

FOLDER = Path(__file__).parents[2] / "reference/examples/minimal"
PAGE = Path(__file__).parents[2] / "docs/build-an-orchestrator.md"
APP = FOLDER / "app.py"
CODEX = load_contract("codex", "0.169.0")
BAD: list[tuple[int, str, dict[str, object]]] = [
    (422, "INVALID_REQUEST", {"prompt": " "}),
    (422, "INVALID_REQUEST", {"prompt": None}),
    (422, "INVALID_REQUEST", {"session_timeout_sec": True}),
    (422, "INVALID_REQUEST", {"engine_options": [1]}),
    (422, "INVALID_REQUEST", {"colour": "blue"}),
    (422, "INVALID_REQUEST", {"execution_mode": "auto"}),
    (422, "UNKNOWN_ENGINE", {"engine": "../codex"}),
    (422, "ENGINE_NOT_INSTALLED", {"engine": "gemini"}),
    (422, "AUTO_FLAG_REFUSED", {"engine_options": ["--dangerously-bypass-approvals-and-sandbox"]}),
    (422, "OPTION_REFUSED", {"engine_options": ["--no-such-option"]}),
    (422, "WORKSPACE_REFUSED", {"workspace": "../.."}),
    (422, "WORKSPACE_REFUSED", {"workspace": "data"}),
    (422, "WORKSPACE_REFUSED", {"workspace": "a\0b"}),
    (422, "WORKSPACE_REFUSED", {"workspace": "a" * 5000}),
]
POLLED = 0.1  # seconds between two looks, each of which costs the server a request
TASK = {"engine": "codex", "prompt": "Paint the door.", "execution_mode": "interactive"}


class Server:
    """A process of app.py on a free port, in its own folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.engines = folder, folder / "bin"
        self.env = {"PATH": f"{self.engines}:{os.defpath}", "HOME": str(folder), "PORT": "0", "WORKSPACES": str(folder)}
        self.start()

    def start(self) -> None:
        """Start it on what it left."""
        self.process = subprocess.Popen(
            [sys.executable, APP],
            cwd=self.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout
        self.address = self.process.stdout.readline().rpartition("/")[2].strip()
        assert self.address

    def end(self, *, kill: bool = False) -> None:
        """End it in order, or as a crash does."""
        (self.process.kill if kill else self.process.terminate)()
        self.process.communicate(timeout=PATIENCE)

    def call(self, path: str, body: object = None, key: str = "", kind: str = "application/json") -> tuple[int, Any]:
        """Send a request: a POST if there is a body. A text is sent as it is."""
        sent = body if isinstance(body, str | None) else json.dumps(body)
        connection = HTTPConnection(self.address, timeout=PATIENCE)
        headers = {"Content-Type": kind} | ({"Idempotency-Key": key} if key else {})
        connection.request("GET" if body is None else "POST", path, sent, headers)
        response = connection.getresponse()
        return response.status, json.load(response)

    def create(self, **more: object) -> str:
        """Create a run; return its path."""
        status, created = self.call("/v1/runs", TASK | more)
        assert status == 202, created
        return str(created["links"]["self"])

    def until(self, path: str, *states: str) -> dict[str, Any]:
        """Wait until a run is in one of these states."""
        deadline = time.monotonic() + PATIENCE
        while (run := self.call(path)[1])["state"] not in states:
            assert time.monotonic() < deadline, run
            time.sleep(POLLED)
        return dict(run)

    def question(self, path: str) -> dict[str, Any]:
        """Wait for the question of a run."""
        self.until(path, "waiting_user")
        return dict(self.call(f"{path}/interaction")[1]["pending"])

    def reply(self, path: str, question: str, text: str, key: str = "") -> tuple[int, Any]:
        """Reply to a question."""
        return self.call(f"{path}/interaction/reply", {"interaction_id": question, "response": text}, key)


@pytest.fixture(name="server")
def _server(tmp_path: Path) -> Iterator[Server]:
    """Serve with a simulated Codex on PATH."""
    install(CODEX, tmp_path / "bin")
    server = Server(tmp_path)
    yield server
    server.end()


def engines_of(path: str) -> list[psutil.Process]:
    """Return the living processes of the turns of a run."""
    found = []
    for process in psutil.process_iter():
        try:
            if path.rpartition("/")[2] in process.environ().get(TAG, "") and process.status() != "zombie":
                found.append(process)
        except psutil.Error:
            continue
    return found


def hang(server: Server) -> str:
    """Create a run whose engine hangs, and wait until it does; return its path."""
    install(CODEX, server.engines, ("delay=3600",))
    path = server.create()
    started(path)
    return path


def started(path: str) -> list[psutil.Process]:
    """Wait until the turn of a run has processes; return them."""
    deadline = time.monotonic() + PATIENCE
    while not (processes := engines_of(path)):
        assert time.monotonic() < deadline
        time.sleep(POLLED)
    return processes


@pytest.mark.long
def test_a_killed_server_keeps_the_question_and_its_session(server: Server) -> None:
    """The run waits without a process; after a crash, a reply resumes the same session in a new process, to the end."""
    path = server.create()
    question, before = server.question(path), server.call(path)[1]
    assert before["engine_session_handle"]["handle_value"]
    assert engines_of(path) == []
    server.end(kill=True)
    server.start()
    assert (server.question(path), server.call(path)[1]) == (question, before)
    status, answer = server.reply(path, question["interaction_id"], "blue")
    assert (status, answer["turn_index"]) == (202, 2)
    ended = server.until(path, "succeeded", "failed")
    assert ended["final_data"], ended
    assert ended["engine_session_handle"]["handle_value"] == before["engine_session_handle"]["handle_value"]


@pytest.mark.long
def test_one_of_many_replies_wins(server: Server) -> None:
    """Others get 409; the winner's request, repeated with its key, gets the same answer."""
    path = server.create()
    question = server.question(path)["interaction_id"]
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda n: server.reply(path, question, "blue", f"key-{n}"), range(6)))
    assert sorted(status for status, _ in answers) == [202] + [409] * 5
    winner = next(n for n, (status, _) in enumerate(answers) if status == 202)
    assert server.reply(path, question, "blue", f"key-{winner}") == answers[winner]
    assert server.reply(path, question, "red", f"key-{winner}")[1]["code"] == "IDEMPOTENCY_KEY_REUSED"
    assert server.until(path, "succeeded", "failed")["turn_index"] == 2


@pytest.mark.long
def test_a_turn_that_a_crash_interrupts_is_not_repeated(server: Server) -> None:
    """The next server ends its processes and fails the run, which says why."""
    path = hang(server)
    server.end(kill=True)
    server.start()
    run = server.call(path)[1]
    assert (run["state"], run["error"]["code"]) == ("failed", "ORCHESTRATOR_RESTART_INTERRUPTED")
    assert engines_of(path) == []


@pytest.mark.long
def test_an_engine_that_dies_during_the_reply_fails_the_run(server: Server) -> None:
    """The reply is not sent again, also not after a crash of the server."""
    path = server.create()
    question = server.question(path)["interaction_id"]
    install(CODEX, server.engines, ("delay=3600",))
    assert server.reply(path, question, "blue")[0] == 202
    for process in started(path):
        process.kill()
    run = server.until(path, "failed", "waiting_user")
    assert (run["state"], run["error"]["code"], run["turn_index"]) == ("failed", "SESSION_RESUME_FAILED", 2)
    server.end(kill=True)
    server.start()
    assert server.call(path)[1] == run
    assert server.reply(path, question, "blue")[1]["code"] == "NOT_WAITING"


@pytest.mark.long
def test_a_setting_that_lets_the_engine_act_unasked_is_refused(server: Server) -> None:
    """So it is before a reply, whose question stays open."""
    path = server.create()
    question = server.question(path)["interaction_id"]
    setting = server.folder / ".codex/config.toml"
    setting.write_text('[mcp_servers.files.tools.write]\napproval_mode = "approve"\n')
    assert server.call("/v1/runs", TASK)[1]["code"] == "ENGINE_UNSAFE"
    assert server.reply(path, question, "blue")[1]["code"] == "ENGINE_UNSAFE"
    setting.unlink()
    assert server.reply(path, question, "blue")[0] == 202
    server.until(path, "succeeded")


@pytest.mark.long
def test_a_server_that_is_stopped_leaves_no_process(server: Server) -> None:
    """The turn that it interrupts fails, with the same reason."""
    path = hang(server)
    server.end()
    assert engines_of(path) == []
    server.start()
    assert server.call(path)[1]["error"]["code"] == "ORCHESTRATOR_RESTART_INTERRUPTED"


@pytest.mark.long
def test_a_canceled_run_leaves_no_process(server: Server) -> None:
    """It is canceled when the processes of its turn have ended; a second time changes nothing."""
    path = hang(server)
    assert server.call(f"{path}/cancel", "")[0] == 202
    server.until(path, "canceled")
    assert engines_of(path) == []
    assert server.call(f"{path}/cancel", "")[0] == 202


@pytest.mark.long
def test_a_reply_that_cannot_be_sent_is_refused(server: Server) -> None:
    """While the engine is missing, the question stays open; with the engine back, the reply is accepted."""
    path = server.create()
    question = server.question(path)["interaction_id"]
    (server.engines / "codex").unlink()
    status, answer = server.reply(path, question, "blue")
    assert (status, answer["code"]) == (409, "ENGINE_UNAVAILABLE")
    install(CODEX, server.engines)
    assert server.question(path)["interaction_id"] == question
    assert server.reply(path, question, "blue")[0] == 202
    assert server.until(path, "succeeded", "failed")["state"] == "succeeded"


@pytest.mark.long
def test_a_reply_that_reached_no_process_is_returned(server: Server) -> None:
    """If the engine goes missing while the reply is queued, the question is open again, and so is the reply's key."""
    path = server.create()
    question = server.question(path)["interaction_id"]
    busy = [hang(server) for _ in range(4)]
    install(CODEX, server.engines)
    assert server.reply(path, question, "blue", "my-key")[0] == 202
    (server.engines / "codex").unlink()
    server.call(f"{busy[0]}/cancel", "")
    assert server.question(path)["interaction_id"] == question
    unsent = server.call(f"{path}/interaction")[1]["unsent_reply"]
    assert (unsent["response"], unsent["code"]) == ("blue", "ENGINE_UNAVAILABLE")
    install(CODEX, server.engines)
    assert server.reply(path, question, "blue", "my-key")[0] == 202
    assert server.until(path, "succeeded", "failed")["turn_index"] == 2


@pytest.mark.long
def test_each_run_has_a_folder_of_its_own(server: Server) -> None:
    """Two runs work in two folders, and one that a caller names takes one run at a time."""
    paths = [server.create(), server.create()]
    folders = {server.folder / "data" / path.rpartition("/")[2] for path in paths}
    assert all(folder.is_dir() for folder in folders)
    (server.folder / "mine").mkdir()
    server.create(workspace="mine")
    assert server.call("/v1/runs", TASK | {"workspace": "mine"})[1]["code"] == "WORKSPACE_BUSY"
    for path in paths:
        server.question(path)


@pytest.mark.long
def test_a_bad_request_creates_nothing(server: Server) -> None:
    """Its answer has the code of the API, also for an option that would let the engine act unasked."""
    answers = [server.call("/v1/runs", TASK | change) for _, _, change in BAD]
    assert [
        (status, answer["code"], change) for (status, answer), (*_, change) in zip(answers, BAD, strict=True)
    ] == BAD
    assert [path for path in (server.folder / "data").iterdir() if path.is_dir()] == []


def test_what_is_no_json_is_refused(server: Server) -> None:
    """Broken text, deep nesting, half of a character, no object, and what a form of a web page sends."""
    for body in ("{", "[" * 100_000, '{"engine": "\\ud800"}'):
        assert server.call("/v1/runs", body)[1]["code"] == "BAD_JSON"
    connection = HTTPConnection(server.address, timeout=PATIENCE)
    connection.request("POST", "/v1/runs", None, {"Content-Type": "application/json", "Content-Length": f"{2**23}"})
    assert json.load(connection.getresponse())["code"] == "BODY_TOO_LARGE"
    assert server.call("/v1/runs", "[]")[1]["code"] == "INVALID_REQUEST"
    assert server.call("/v1/runs", "{}", kind="text/plain")[1]["code"] == "UNSUPPORTED_MEDIA_TYPE"
    for name in ("none", "%00", "%ff"):
        assert server.call(f"/v1/runs/{name}")[1]["code"] == "RUN_NOT_FOUND"
    assert server.call("/healthz") == (200, {"status": "ok"})


@pytest.mark.long
def test_a_folder_has_one_server(server: Server) -> None:
    """A second one does not start, and the first goes on."""
    second = subprocess.run(
        [sys.executable, APP], cwd=server.folder, env=server.env, capture_output=True, text=True, check=False
    )
    assert (second.returncode, "database is locked" in second.stderr) == (1, True), second.stderr
    assert server.call("/healthz")[0] == 200


def test_the_page_shows_parts_of_the_file() -> None:
    """Each block of docs/build-an-orchestrator.md stands in app.py, apart from its indentation."""
    blocks = re.findall(r"^```(?:python|sql)\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    code = [line.strip() for line in APP.read_text("utf-8").splitlines()]
    assert len(blocks) >= 9
    for block in blocks:
        assert "\n".join(line.strip() for line in block.splitlines()) in "\n".join(code), block


@pytest.mark.long
def test_the_commands_of_the_page_work(server: Server) -> None:
    """A user creates a run, and answers its question, with curl and jq."""
    (commands,) = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    commands = commands.replace("127.0.0.1:8322", server.address)
    env = {"PATH": os.environ["PATH"], "HOME": str(server.folder)}
    ran = subprocess.run(
        ["bash", "-c", commands], env=env, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (ran.returncode, "colour" in ran.stdout.splitlines()[-2]) == (0, True), ran


def test_the_server_is_one_short_file() -> None:
    """It imports the standard library, Flask with its server and errors, and names of `turngate` itself."""
    code = APP.read_text("utf-8")
    modules = {node.module for node in ast.walk(ast.parse(code)) if isinstance(node, ast.ImportFrom)}
    modules |= {name.name for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Import) for name in node.names}
    others = {name for name in modules if name and name.partition(".")[0] not in sys.stdlib_module_names}
    assert others == {"flask", "turngate", "werkzeug.exceptions", "werkzeug.serving"}
    assert len(code.splitlines()) <= 300


@pytest.mark.parametrize(
    "engine,only",
    [
        pytest.param("gemini", "two-turns", marks=pytest.mark.long),  # which gets its prompt only after a proof
        *(
            pytest.param(name, "", marks=(pytest.mark.long, pytest.mark.nightly, pytest.mark.timeout(1800)))
            for name in ("codex", "claude", "gemini", "opencode", "qwen")
        ),
    ],
)
def test_the_server_conforms(engine: str, only: str, tmp_path: Path) -> None:
    """It passes every scenario of `turngate conform` that the engine's output allows."""
    turngate, report = str(Path(sys.executable).with_name("turngate")), str(tmp_path / "report.json")
    command = [turngate, "conform", "--engine", engine, "--jobs", "4", "--report", report]
    command += ["--scenario", only] if only else []
    subprocess.run(
        [*command, "--", sys.executable, FOLDER / "driver.py"], cwd=tmp_path, capture_output=True, check=False
    )
    results = json.loads(Path(report).read_text("utf-8"))["results"]
    assert {row["scenario"]: row for row in results if row["result"] not in ("pass", "skipped")} == {}
    assert "pass" in {row["result"] for row in results}
    assert len(results) > (0 if only else 30)
