"""A server verifies real engines that nobody has probed, and doesn't resume one that fails."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.terminal import terminal
from tests.probes import engines
from turngate.contract.engine_contract import EngineContract
from turngate.files import default_cache
from turngate_probes.harness.driver import ASK, FINAL
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.harness.sandbox import Sandbox, sandbox
from turngate_probes.server_level.server_process import CaseClient, ServerProcess, read_token, request
from turngate_probes.stub_model import StubRule, new_nonce

pytestmark = pytest.mark.engines

FORGETS = """
argv = sys.argv[1:]
if "resume" in argv and "--help" not in argv:
    at = argv.index("resume")
    del argv[at : at + 2]
sys.exit(subprocess.run((REAL, *argv)).returncode)
"""


class VerifiedServer:
    """A server with one engine on its PATH, and its stub model backend."""

    def __init__(self, client: CaseClient, box: Sandbox, contract: EngineContract) -> None:
        self.client, self.box, self.contract = client, box, contract

    def engine(self) -> dict[str, Any]:
        """Return what the server reports about the engine."""
        rows = self.client.get("/v1/engines").document["engines"]
        return next(row for row in rows if row["engine"] == self.contract.engine)

    def create(self, mark: str) -> str:
        """Create an interactive run whose first turn asks; return its path."""
        self.box.backend.script(StubRule(ASK))
        body = {
            "engine": self.contract.engine,
            "prompt": f"Ask me {mark}",
            "execution_mode": "interactive",
            "model": self.contract.hermetic.model,
            "workspace": str(self.box.work.resolve()),
        }
        return str(self.client.post("/v1/runs", body, "create").document["links"]["self"])

    def until(self, path: str, *states: str) -> dict[str, Any]:
        """Follow a run until it has one of these states, or has ended; an engine on a busy machine may take minutes."""
        ended = ("succeeded", "failed", "canceled")
        while (run := self.client.get(path).document)["state"] not in (*states, *ended):
            Interrupt().wait(0.1)
        assert run["state"] in states, run["error"]
        return dict(run)


@contextmanager
def served(engine: str, folder: Path, wrapper: str = "") -> Iterator[VerifiedServer]:
    """Serve the pinned release of an engine, in a wrapper if `code` is given, with no saved result."""
    contract, real = engines.pinned_release(engine)
    # not below the system's temporary directory, which some engines don't trust
    with sandbox(contract.hermetic, default_cache() / "sandboxes", f"verified-{engine}", keep=False) as box:
        path = box.root / "path"
        path.mkdir()
        executable = path / contract.executable
        if wrapper:
            executable.write_text(f"#!{sys.executable} -IS\nimport subprocess, sys\nREAL = {str(real)!r}\n{wrapper}")
            executable.chmod(0o755)
        else:
            executable.symlink_to(real)
        env = box.env(contract.hermetic, box.work)
        env |= {"PATH": f"{path}:{env['PATH']}", "TURNGATE_CACHE_DIR": str(folder / "cache")}
        passed = {*contract.environment.passed, *contract.environment.locations}
        asked = request(box.root / "data", box.root, env, {*contract.hermetic.env} - passed, verify="background")
        with ServerProcess(asked, Interrupt(), "serve") as server:
            client = CaseClient(server.url, read_token(box.root / "data"), lambda _call: None)
            yield VerifiedServer(client, box, contract)


def test_a_codex_that_starts_a_fresh_session_is_kept_running(tmp_path: Path) -> None:
    """If resume loses the conversation, the run keeps its process, whose second turn has the context."""
    with served("codex", tmp_path, FORGETS) as world:
        mark = new_nonce()
        path = world.create(mark)
        asked = world.until(path, "waiting_user")
        profile = asked["interactive_profile"]
        assert profile["kind"] == "sticky_process"
        assert profile["reason"].startswith("verified on the wire: sessions are not resumed: resume.")
        reported = world.engine()
        assert (reported["verified"], reported["profile"]["kind"]) == ("refuted", "sticky_process")
        assert reported["last_probe"] is None
        world.box.backend.script(StubRule(FINAL))
        before = len(world.box.backend.exchanges())
        question = world.client.get(f"{path}/interaction").document["pending"]["interaction_id"]
        world.client.post(f"{path}/interaction/reply", {"interaction_id": question, "response": "blue"}, "reply")
        world.until(path, "succeeded")
        assert any(mark in exchange.nonces for exchange in world.box.backend.exchanges()[before:])


@pytest.mark.parametrize(
    "engine, name, text, code",
    [
        ("claude", ".claude/settings.json", '{"verbose": true}', 0),
        ("claude", ".claude/settings.json", '{"viewMode": "verbose"}', 0),
        (
            "qwen",
            ".qwen/settings.json",
            '{"general": {"chatRecording": false}, "security": {"auth": {"selectedType": "openai"}}}',
            1,
        ),
    ],
)
def test_the_proof_agrees_with_the_turns_of_the_same_home(
    engine: str, name: str, text: str, code: int, tmp_path: Path
) -> None:
    """What `turngate probe --resume` says of a user's settings is what `turngate start` and `resume` do with them."""
    with terminal(engine, tmp_path) as here:
        settings = here.box.home / name
        settings.parent.mkdir(exist_ok=True)
        settings.write_text(text)
        report = json.loads(here.turngate(FINAL, "probe", "--resume", "--json", engine).stdout)
        assert (report["exit_code"], report["releases"][0]["capability"]["supported"]) == (code, code == 0)
        started = here.start(FINAL)
        assert started.returncode == 0, started.stderr
        resumed = here.turngate(FINAL, "resume", *here.data, json.loads(started.stdout)["handle"], "blue")
        assert resumed.returncode == code, resumed.stderr


@pytest.mark.parametrize("engine", ["codex", "gemini", "opencode"])
def test_a_real_engine_is_proven_before_its_first_run(engine: str, tmp_path: Path) -> None:
    """A run stays queued until two turns have shown that the engine resumes."""
    with served(engine, tmp_path) as world:
        asked = world.until(world.create(new_nonce()), "waiting_user")
        profile = asked["interactive_profile"]
        assert (profile["kind"], profile["reason"].partition(": ")[0]) == ("resumable", "verified on the wire")
        assert world.engine()["verified"] == "proven"
