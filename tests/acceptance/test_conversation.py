"""Conversations with real engines and the stub model backend, at a terminal or with runs of a server."""

import json
import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from tests.probes import engines
from turngate.contract.engine_contract import EngineContract
from turngate.contract.session_ids import filled, slots
from turngate_probes.harness.driver import QUESTION
from turngate_probes.harness.sandbox import Sandbox, sandbox
from turngate_probes.stub_model import Refuse, StubRule, Text, new_nonce

pytestmark = pytest.mark.engines

TURNGATE = str(Path(sys.executable).with_name("turngate"))
PATIENCE = 300


@dataclass(frozen=True, slots=True)
class Table:
    """A user's sandbox with one real engine on PATH, whose model is the stub backend."""

    contract: EngineContract
    box: Sandbox
    env: dict[str, str]

    def type(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `turngate` with these arguments, and check that it succeeds."""
        done = self.try_to(*words)
        assert done.returncode == 0, done.stderr
        return done

    def try_to(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `turngate` with these arguments."""
        return subprocess.run(
            [TURNGATE, *words],
            env=self.env,
            cwd=self.box.work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    @contextmanager
    def served(self) -> Iterator[str]:
        """Run a server for the block; return its address."""
        passed = [word for name in sorted(self.env) for word in ("--pass-env", name)]
        command = [TURNGATE, "serve", "--port", "0", "--no-token", *passed]
        with subprocess.Popen(command, env=self.env, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout
                address = re.search(r"http://\S+", server.stdout.readline())
                assert address
                yield address[0]
            finally:
                server.terminate()

    def ask(self, url: str, prompt: str) -> str:
        """Create a run and wait for its question; return the path of the run."""
        request = {"engine": self.contract.engine, "prompt": prompt, "execution_mode": "interactive"}
        path = str(call(f"{url}/v1/runs", request | {"model": self.contract.hermetic.model})["links"]["self"])
        with urllib.request.urlopen(f"{url}{path}/events", timeout=PATIENCE) as events:
            assert any(b'"state": "waiting_user"' in line for line in events)
        return path


def call(url: str, body: Any = None) -> dict[str, Any]:
    """Send a GET, or a POST if there is a body; return the response, also an error response."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            reply: dict[str, Any] = json.load(answer)
    except HTTPError as refused:
        reply = json.load(refused)
    return reply


@pytest.fixture(name="table", params=["codex", "gemini", "opencode"])
def _table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Table]:
    """Install the pinned release and put it on PATH in a sandbox."""
    engine = str(request.param)
    contract, executable = engines.pinned_release(engine)
    with sandbox(contract.hermetic, tmp_path, engine, keep=False) as box:
        path = box.root / "path"
        path.mkdir()
        (path / contract.executable).symlink_to(executable)
        env = box.env(contract.hermetic, box.work)
        env |= {"PATH": f"{path}:{env['PATH']}", "TURNGATE_DATA_DIR": str(box.root / "data")}
        yield Table(contract, box, env)


def test_the_first_message_is_on_the_wire_of_the_third_turn(table: Table) -> None:
    """The third turn's model request holds the marks of all three messages."""
    marks = [new_nonce() for _ in range(3)]
    backend = table.box.backend
    backend.script(StubRule(Text(QUESTION)))
    begun = table.type("start", table.contract.engine, "--model", table.contract.hermetic.model, f"Ask me {marks[0]}")
    assert begun.stdout.endswith("? Which colour?\n  - red\n  - blue\n")
    handle = begun.stderr.rpartition("handle ")[2][:8]
    table.type("resume", handle[:6], f"--yolo {marks[1]}")
    backend.script(StubRule(Text("It is blue.")))
    before = len(backend.exchanges())
    assert table.type("resume", handle, f"blue\n{marks[2]}").stdout == "It is blue.\n"
    assert any(set(marks) <= set(exchange.nonces) for exchange in backend.exchanges()[before:])
    (line,) = table.type("handles").stdout.splitlines()
    assert line.split()[0] == handle
    assert "succeeded" in line


def final(**data: str) -> StubRule:
    """Make the model's next answer final."""
    return StubRule(Text(json.dumps({"outcome": "final", "final_data": data})))


def test_a_served_run_is_answered_and_continued_at_the_terminal(table: Table) -> None:
    """A reply at the terminal ends a server's run in its session; a further message has the whole conversation."""
    marks = [new_nonce() for _ in range(3)]
    backend = table.box.backend
    backend.script(StubRule(Text(QUESTION)))
    with table.served() as url:
        path = table.ask(url, f"Ask me {marks[0]}")
        handle = path[-8:]
        line, *question = table.type("handles").stdout.splitlines()
        assert line.startswith(handle)
        assert " waiting for you " in f"{line} "
        assert any(f"resume {handle} MESSAGE" in line for line in question)
        session = call(url + path)["engine_session_handle"]
        backend.script(final(colour="blue"))
        table.type("resume", handle, f"blue {marks[1]}")
        run = call(url + path)
        assert (run["state"], run["turn_index"], run["final_data"]) == ("succeeded", 2, {"colour": "blue"})
        assert run["engine_session_handle"] == session
        backend.script(StubRule(Text("It dries.")))
        before = len(backend.exchanges())
        assert table.type("resume", handle, "--", "--dry?", marks[2]).stdout == "It dries.\n"
        assert any(set(marks) <= set(exchange.nonces) for exchange in backend.exchanges()[before:])
        assert call(url + path) == run


def store_of(table: Table) -> Path:
    """Return the file or folder that holds the sessions of the engine."""
    store = table.contract.store
    assert store
    place = store.check.file if store.check.kind == "sqlite" else store.check.pattern
    path = filled(place.partition("/*")[0], slots(store.locations, table.env) | {"handle": "*"})
    return Path(path.partition("/*")[0])


def test_what_can_come_back_refuses_a_reply_over_http_and_at_the_terminal(table: Table) -> None:
    """The run keeps waiting, and its next turn has the whole conversation once everything is back."""
    marks = [new_nonce() for _ in range(2)]
    backend = table.box.backend
    backend.script(StubRule(Text(QUESTION)))
    executable = table.box.root / "path" / table.contract.executable
    with table.served() as url:
        path = table.ask(url, f"Ask me {marks[0]}")
        pending = call(f"{url}{path}/interaction")["pending"]["interaction_id"]
        reply = {"interaction_id": pending, "response": f"blue {marks[1]}"}
        for code, place in {"ENGINE_UNAVAILABLE": executable, "SESSION_STORE_UNAVAILABLE": store_of(table)}.items():
            aside = place.rename(place.with_name("aside"))
            assert call(f"{url}{path}/interaction/reply", reply)["code"] == code
            typed = table.try_to("resume", path[-8:], "blue")
            assert (typed.returncode, "still waits for a reply" in typed.stderr) == (2, True), typed.stderr
            aside.rename(place)
        backend.script(final(colour="blue"))
        before = len(backend.exchanges())
        assert "code" not in call(f"{url}{path}/interaction/reply", reply)
        with urllib.request.urlopen(f"{url}{path}/events", timeout=PATIENCE) as events:
            assert any(b'"state": "succeeded"' in line for line in events)
        versions = [turn["engine_version"] for turn in call(f"{url}{path}/turns")["turns"]]
        assert versions == [table.contract.version] * 2
    assert any({*marks} <= set(exchange.nonces) for exchange in backend.exchanges()[before:])


def test_a_turn_that_the_model_refused_leaves_a_session_in_which_the_run_goes_on(table: Table) -> None:
    """The run fails, its error says that the session is intact, and its next turn has the whole conversation."""
    marks = [new_nonce() for _ in range(3)]
    backend = table.box.backend
    backend.script(StubRule(Text(QUESTION)))
    with table.served() as url:
        path = table.ask(url, f"Ask me {marks[0]}")
        pending = call(f"{url}{path}/interaction")["pending"]["interaction_id"]
        backend.script(StubRule(Refuse(401)))
        call(f"{url}{path}/interaction/reply", {"interaction_id": pending, "response": f"blue {marks[1]}"})
        with urllib.request.urlopen(f"{url}{path}/events", timeout=PATIENCE) as events:
            assert any(b'"state": "failed"' in line for line in events)
        error = call(url + path)["error"]
        assert (error["code"], error["session_intact"], error["can_continue"]) == ("SESSION_RESUME_FAILED", True, True)
        backend.script(final(colour="blue"))
        before = len(backend.exchanges())
        assert "code" not in call(f"{url}{path}/continue", {"message": f"try again {marks[2]}"})
        with urllib.request.urlopen(f"{url}{path}/events", timeout=PATIENCE) as events:
            assert any(b'"state": "succeeded"' in line for line in events)
    assert any({marks[0], marks[2]} <= set(exchange.nonces) for exchange in backend.exchanges()[before:])


def _waits(reported: threading.Event) -> None:
    reported.wait(PATIENCE)


def test_one_of_http_and_the_terminal_replies(table: Table) -> None:
    """Of two replies at once one is accepted and the other rejected before the turn ends; the model gets one."""
    backend = table.box.backend
    backend.script(StubRule(Text(QUESTION)))
    marks, reported = {"terminal": new_nonce(), "http": new_nonce()}, threading.Event()
    with table.served() as url, ThreadPoolExecutor(2) as pool:
        path = table.ask(url, "Ask me")
        pending = call(f"{url}{path}/interaction")["pending"]["interaction_id"]
        before = len(backend.exchanges())
        backend.on_exchange(lambda _: _waits(reported))
        backend.script(final(colour="blue"))
        typed = pool.submit(table.try_to, "resume", path[-8:], marks["terminal"])
        reply = {"interaction_id": pending, "response": marks["http"]}
        code = pool.submit(call, f"{url}{path}/interaction/reply", reply).result().get("code")
        if code is None:
            assert typed.result().returncode == 2
        reported.set()
        if code is not None:
            assert (code, typed.result().returncode) == ("NOT_WAITING", 0)
        with urllib.request.urlopen(f"{url}{path}/events", timeout=PATIENCE) as events:
            assert sum(b"event: turn.started" in line for line in events) == 2
        assert call(url + path)["state"] == "succeeded"
    received = {nonce for exchange in backend.exchanges()[before:] for nonce in exchange.nonces}
    assert received & set(marks.values()) == {marks["http" if code is None else "terminal"]}
