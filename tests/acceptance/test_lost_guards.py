"""A real engine on PATH as a wrapper that sets NODE_OPTIONS, and so undoes the file that guards it."""

import json
import shlex
from pathlib import Path

import pytest

from tests.acceptance.terminal import terminal
from turngate_probes.harness.driver import ASK

pytestmark = pytest.mark.engines

KEY = "sk-planted-0123456789"


@pytest.mark.parametrize("mode", ["auto", "interactive"])
def test_a_wrapper_that_sets_node_options_gets_no_prompt(mode: str, tmp_path: Path) -> None:
    """A first turn and a resume are refused with exit code 2, and the model gets no request, nor does another one."""
    with terminal("gemini", tmp_path) as here:
        asked = json.loads(here.start(ASK, "--mode", "interactive").stdout)
        link = here.box.root / "path" / here.contract.executable
        real = link.resolve()
        link.unlink()
        link.write_text(f'#!/bin/sh\nexport NODE_OPTIONS=--no-warnings\nexec {shlex.quote(str(real))} "$@"\n')
        link.chmod(0o755)
        (here.box.work / ".env").write_text(f"GEMINI_API_KEY={KEY}\n")
        before = len(here.box.backend.exchanges())
        resume = ("resume", "--json", *here.data, asked["handle"], "blue")
        for said in (here.start(ASK, "--mode", mode), here.turngate(ASK, *resume)):
            assert (said.returncode, "before its guard had an effect, so it got no prompt" in said.stderr) == (2, True)
        assert len(here.box.backend.exchanges()) == before
