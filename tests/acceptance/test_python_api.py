"""The examples in docs/python-api.md with the real codex and the stub model backend."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.test_python_api import CONVERSATIONS
from tests.probes import engines
from turngate_probes.harness.driver import ASK, FINAL
from turngate_probes.harness.sandbox import sandbox
from turngate_probes.stub_model import StubRule

pytestmark = pytest.mark.engines


@pytest.mark.parametrize("example", CONVERSATIONS, ids=("synchronous", "asyncio", "queue"))
def test_the_example_runs_the_real_engine(example: str, tmp_path: Path) -> None:
    """Each conversation asks a question, and ends after the model has the reply."""
    contract, executable = engines.pinned_release("codex")
    (tmp_path / "path").mkdir()
    (tmp_path / "path/codex").symlink_to(executable)
    with sandbox(contract.hermetic, tmp_path / "box", "python-api", keep=False) as box:
        config = box.home / ".codex/config.toml"
        config.write_text(config.read_text().replace("TURNGATE_STUB_KEY", "OPENAI_API_KEY"))
        env = box.env(contract.hermetic, box.work) | {"OPENAI_API_KEY": "stub"}
        env["PATH"] = f"{tmp_path / 'path'}:{env['PATH']}"
        box.backend.script(StubRule(FINAL, contains="The user's reply:\n\nblue"), StubRule(ASK))
        ran = subprocess.run(
            (sys.executable, "-c", example),
            cwd=box.work,
            env=env,
            input="blue\nblue\n",
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert (ran.returncode, ran.stderr) == (0, "")
    shown = ran.stdout.splitlines()
    asked = shown.count("Which colour?")
    assert asked >= 1
    assert shown.count("{'colour': 'blue'}") == asked
