"""Real engines whose model answers with nothing: no mode calls that a success."""

import json
from pathlib import Path

import pytest

from tests.acceptance.terminal import terminal
from turngate_probes.harness.driver import ASK
from turngate_probes.stub_model import Text

pytestmark = pytest.mark.engines


@pytest.mark.parametrize("mode", ["auto", "interactive"])
@pytest.mark.parametrize("answer", [Text(""), Text("\n ")], ids=["empty", "blank"])
@pytest.mark.parametrize("engine", ["claude", "codex"])
def test_a_blank_answer_is_a_failed_turn(engine: str, answer: Text, mode: str, tmp_path: Path) -> None:
    """The first turn and a resumed one end with exit code 5, and say that files may have been changed."""
    with terminal(engine, tmp_path) as here:
        first = here.start(answer, "--mode", mode)
        assert (first.returncode, json.loads(first.stdout)["state"]) == (5, "failed"), first.stderr
        assert "returned no answer; it may have changed files" in first.stderr
        asked = json.loads(here.start(ASK, "--mode", mode).stdout)
        again = here.turngate(answer, "resume", "--json", *here.data, asked["handle"], "blue")
        assert (again.returncode, json.loads(again.stdout)["state"]) == (5, "failed"), again.stderr
