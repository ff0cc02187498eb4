"""The recipe for authors of ACP adapters in docs/acp-adapters.md, as far as its parts install by name."""

import os
import re
from pathlib import Path

import pytest

from tests.acceptance.clients.install import from_npm
from tests.probes import engines
from turngate.model import Ended
from turngate.process.execution import ProcessRequest, run
from turngate_probes.harness.sandbox import sandbox
from turngate_probes.stub_model import StubRule, Text

pytestmark = pytest.mark.engines
PAGE = (Path(__file__).parents[2] / "docs/acp-adapters.md").read_text("utf-8")


def test_a_turn_through_an_adapter_reaches_the_stub_model_alone(tmp_path: Path) -> None:
    """The page's client gets the stub model's answer through the page's adapter, and no other host is asked."""
    contract, claude = engines.pinned_release("claude")
    adapter, code = re.search(r"npm install (\S+)", PAGE), re.search(r"```js\n(.*?)```", PAGE, re.DOTALL)
    assert adapter
    assert code
    packages = from_npm(adapter[1])
    (tmp_path / "client.mjs").write_text(code[1], "utf-8")
    (tmp_path / "node_modules").symlink_to(packages)
    with sandbox(contract.hermetic, tmp_path, "adapter", keep=False) as box:
        box.backend.script(StubRule(Text("It is blue.")))
        env = box.env(contract.hermetic, box.work) | {
            "CLAUDE_CODE_EXECUTABLE": str(claude.resolve()),
            "PATH": os.environ["PATH"],
        }
        command = ("node", str(tmp_path / "client.mjs"), str(packages / ".bin" / "claude-agent-acp"))
        done = run(ProcessRequest(command, box.work, env, timeout=600))
        assert (done.ended, done.exit_code) == (Ended.EXIT, 0), done.stderr.decode()
        assert done.stdout.decode() == "end_turn: It is blue.\n"
        assert any("Which colour is the door?" in exchange.user_texts for exchange in box.backend.exchanges())
        assert not box.backend.egress()
