"""The page of the server in Chromium, with the real Codex and the stub model backend."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.browser.chromium import browser
from tests.browser.server import PageServer, page_server
from tests.probes import engines
from turngate_probes.harness.driver import QUESTION
from turngate_probes.harness.sandbox import Sandbox, sandbox
from turngate_probes.stub_model import StubRule, Text, new_nonce

pytestmark = pytest.mark.engines


@contextmanager
def codex_server(folder: Path) -> Iterator[tuple[PageServer, Sandbox, str]]:
    """Serve the pinned Codex on a stub backend; yield the server, the sandbox and the model to ask for."""
    contract, executable = engines.pinned_release("codex")
    with sandbox(contract.hermetic, folder, "codex", keep=False) as box:
        path = box.root / "path"
        path.mkdir()
        (path / contract.executable).symlink_to(executable)
        env = box.env(contract.hermetic, box.work)
        env["PATH"] = f"{path}:{env['PATH']}"
        passed = [word for name in sorted(env) for word in ("--pass-env", name)]
        with page_server(box.root / "data", env, "--no-token", *passed) as server:
            yield server, box, contract.hermetic.model


def test_a_person_answers_codex_after_a_crash_of_the_server(tmp_path: Path) -> None:
    """A question of a run survives a kill of the server; after a restart a click on an option completes the run."""
    mark = new_nonce()
    with codex_server(tmp_path) as (server, box, model), browser(tmp_path / "profile") as tab:
        box.backend.script(StubRule(Text(QUESTION)))
        tab.open(f"{server.url}/new")
        tab.click("[name=prompt]")
        tab.type(f"Ask me {mark}")
        tab.ask("document.querySelector('details').open = true")
        tab.click("[name=model]")
        tab.type(model)
        tab.follow("button.main")
        tab.until("document.querySelectorAll('.options button').length === 2")
        run_id = tab.ask("location.pathname").rpartition("/")[2]
        server.kill()
        server.start()
        box.backend.script(StubRule(Text(json.dumps({"outcome": "final", "final_data": {"colour": "blue"}}))))
        before = len(box.backend.exchanges())
        tab.until("document.getElementById('status').textContent === 'Live'")
        tab.follow(".options button:nth-of-type(2)")
        run = server.follow(run_id, "succeeded")
        assert (run["turn_index"], run["final_data"]) == (2, {"colour": "blue"})
        tab.until("document.getElementById('about').innerText.includes('succeeded')")
        assert any(mark in exchange.nonces for exchange in box.backend.exchanges()[before:])
        assert all("ERR_" in reported for reported in tab.complaints())
