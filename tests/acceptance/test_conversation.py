"""Conversations with the real engines and the stub model backend: `turngate start`, then `turngate resume` twice."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from turngate import load
from turngate.contract import EngineContract
from turngate_probes.cases import QUESTION
from turngate_probes.releases import default_cache, install, pinned_version
from turngate_probes.sandbox import Sandbox, sandbox
from turngate_probes.stub_model import Rule, Text, new_nonce

pytestmark = pytest.mark.engines

TURNGATE = str(Path(sys.executable).with_name("turngate"))
PATIENCE = 300


@dataclass(frozen=True, slots=True)
class Table:
    """A person with one real engine on PATH, whose model is the stub backend."""

    contract: EngineContract
    box: Sandbox
    env: dict[str, str]

    def type(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Type `turngate` and these words, and see it end well."""
        done = subprocess.run(
            [TURNGATE, *words],
            env=self.env,
            cwd=self.box.work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done


@pytest.fixture(name="table", params=["codex", "gemini", "opencode"])
def _table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Table]:
    """Install the pinned release and put it on PATH in a sandbox."""
    engine = str(request.param)
    version = pinned_version(engine)
    contract = load.contract(engine).at(version)
    assert contract.npm
    assert version
    installed = install(engine, contract.npm, version, default_cache(), say=print)
    with sandbox(contract.hermetic, tmp_path, engine, keep=False) as box:
        path = box.root / "path"
        path.mkdir()
        (path / contract.executable).symlink_to(installed.executable)
        env = box.env(contract.hermetic, box.work)
        env |= {"PATH": f"{path}:{env['PATH']}", "TURNGATE_DATA_DIR": str(box.root / "data")}
        yield Table(contract, box, env)


def test_the_first_message_is_on_the_wire_of_the_third_turn(table: Table) -> None:
    """Start, resume, resume: the request of the third turn holds the marks of all three messages."""
    marks = [new_nonce() for _ in range(3)]
    backend = table.box.backend
    backend.script(Rule(Text(QUESTION)))
    begun = table.type("start", table.contract.engine, "--model", table.contract.hermetic.model, f"Ask me {marks[0]}")
    assert begun.stdout.endswith("? Which colour?\n  - red\n  - blue\n")
    handle = begun.stderr.rpartition("handle ")[2][:8]
    table.type("resume", handle[:6], f"--yolo {marks[1]}")
    backend.script(Rule(Text("It is blue.")))
    before = len(backend.exchanges())
    assert table.type("resume", handle, f"blue\n{marks[2]}").stdout == "It is blue.\n"
    assert any(set(marks) <= set(exchange.nonces) for exchange in backend.exchanges()[before:])
    (line,) = table.type("handles").stdout.splitlines()
    assert line.split()[0] == handle
    assert "answered" in line
