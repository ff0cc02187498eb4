"""Official clients of Codex, unmodified, on the real CLI and on the simulated one."""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.clients import install
from tests.probes import engines
from turngate.files import default_cache
from turngate_probes.harness.driver import called
from turngate_probes.harness.sandbox import sandbox
from turngate_probes.simulate.simulated_process import install as install_simulated
from turngate_probes.stub_model import Refuse, StubRule, Text

pytestmark = pytest.mark.engines
PROGRAMS = Path(__file__).parent / "clients"
# client -> its npm package, and the program that uses it
PROGRAMS_OF = {
    "@openai/codex-sdk": ("@openai/codex-sdk@0.163.0", "codex_sdk.mjs"),
    "ai-sdk-provider-codex-cli": ("ai-sdk-provider-codex-cli@2.2.1", "ai_sdk_codex.mjs"),
}


def yielded(command: Sequence[str | Path], executable: Path | None, more: dict[str, str], *, direct: bool) -> Any:
    """Return what a client's program prints with the real CLI or, without one, with the simulated one.

    `direct`: the client names a model that the release doesn't know, which calls tools directly.
    """
    contract = engines.pinned_release("codex")[0]
    call = contract.hermetic.tool_call
    assert call
    with sandbox(contract.hermetic, default_cache() / "sandboxes", "client", keep=False) as box:
        simulated = executable or install_simulated(contract, box.root / "bin")
        arguments = {name: str(value).removeprefix("sleep 1; ") for name, value in call.arguments.items()}
        written = StubRule(called(contract, call.name, arguments, direct=direct), contains="Write.", times=1)
        box.backend.script(written, StubRule(Refuse(401), contains="kumquat"), StubRule(Text("ok")))
        env = box.env(contract.hermetic, box.work) | more
        ran = subprocess.run(
            (*command, simulated, box.work),
            cwd=box.work,
            env=env,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        conversations = [texts for e in box.backend.exchanges() if (texts := e.user_texts) and texts[-1] == "Again."]
        assert any("Remember the plum." in text for text in conversations[-1])
        return json.loads(ran.stdout) | {"written": (box.work / "touched.txt").read_text()}


@pytest.mark.parametrize("client", ["openai-codex", *PROGRAMS_OF])
def test_a_client_yields_the_same_with_the_simulated_engine(client: str, tmp_path: Path) -> None:
    """Turns, a tool call, a resume in a new process, a lost session and a failure look the same to the client."""
    executable, command, more = engines.pinned_release("codex")[1], list[str | Path](), dict[str, str]()
    if client == "openai-codex":
        packages = install.from_pypi("pydantic", "packaging", without_dependencies=["openai-codex==0.163.0"])
        command, more = [sys.executable, PROGRAMS / "openai_codex_client.py"], {"PYTHONPATH": str(packages)}
    else:
        package, name = PROGRAMS_OF[client]
        program = tmp_path / name
        shutil.copy(PROGRAMS / program.name, program)
        (tmp_path / "node_modules").symlink_to(install.from_npm(package))
        command = ["node", program]
    direct = client == "ai-sdk-provider-codex-cli"
    real, simulated = (yielded(command, one, more, direct=direct) for one in (executable, None))
    assert simulated == real
    assert (real["first"][0], real["same"], real["written"]) == ("ok", True, "hi\n")
    assert "no rollout found" in str(real["lost"])
    assert real["failed"] in (True, ["RuntimeError", True])
