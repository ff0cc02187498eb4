"""Interactive runs of the server that write artifacts, on real engines with the stub model backend."""

import json
from pathlib import Path

import pytest

from tests.acceptance.test_verified import served
from tests.contracts.releases import NEWEST
from turngate_probes.harness.artifacts_case import writing
from turngate_probes.harness.driver import FINAL, called
from turngate_probes.stub_model import StubRule, new_nonce

pytestmark = pytest.mark.engines


@pytest.mark.parametrize("engine", sorted(name for name, contract in NEWEST.items() if contract.artifacts))
def test_a_run_lists_the_file_that_its_agent_wrote(engine: str, tmp_path: Path) -> None:
    """The agent writes below the directory that its prompt names, and fails to write beside it."""
    with served(engine, tmp_path) as world:
        path = world.create(new_nonce())
        run = world.until(path, "waiting_user")
        assert "no_artifacts" not in run["interactive_profile"]
        directory = world.box.work.resolve() / "artifacts" / run["run_id"].rpartition("-")[2]
        assert str(directory) in json.dumps([list(e.user_texts) for e in world.box.backend.exchanges()])
        tool = world.contract.hermetic.tool_call
        assert tool
        uses = [writing(tool, str(place)) for place in (directory / "result.txt", world.box.work / "beside.txt")]
        calls = [called(world.contract, use.name, use.arguments, direct=True) for use in uses]
        world.box.backend.script(*(StubRule(call, offers_tools=True, times=1) for call in calls), StubRule(FINAL))
        question = world.client.get(f"{path}/interaction").document["pending"]["interaction_id"]
        world.client.post(f"{path}/interaction/reply", {"interaction_id": question, "response": "blue"}, "reply")
        world.until(path, "succeeded")
        files = world.client.get(f"{path}/files").document["files"]
        assert [(file["path"], file["change"], file["turn_index"], file["is_artifact"]) for file in files] == [
            (f"artifacts/{directory.name}/result.txt", "added", 2, True)
        ]
        assert (directory / "result.txt").read_text("utf-8").strip() == "hi"
