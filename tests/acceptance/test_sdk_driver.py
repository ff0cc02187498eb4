"""The driver for an SDK in docs/test-your-orchestrator.md, with `@openai/codex-sdk`."""

import re
from pathlib import Path

import pytest

from tests.acceptance.clients import install
from turngate import load_contract
from turngate_probes.conform.catalogue import scenarios
from turngate_probes.conform.conform_report import ScenarioResult
from turngate_probes.conform.session import ConformSession
from turngate_probes.harness.interrupt import Interrupt

pytestmark = pytest.mark.engines
PAGE = Path(__file__).parents[2] / "docs/test-your-orchestrator.md"


def test_the_driver_for_an_sdk_works(tmp_path: Path) -> None:
    """It has a conversation of two turns and one of three, and fails if the session is lost."""
    code = re.search(r"```js\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert code
    (tmp_path / "driver.mjs").write_text(code[1], "utf-8")
    (tmp_path / "node_modules").symlink_to(install.from_npm("@openai/codex-sdk@0.163.0"))
    chosen = tuple(scenarios()[name] for name in ("two-turns", "three-turns", "lost-session"))
    command = ("node", str(tmp_path / "driver.mjs"))
    report = ConformSession(command, (load_contract("codex", "0.169.0"),), chosen, tmp_path / "runs", 2).run(
        Interrupt(), lambda _: None
    )
    assert [(row.result, row.breaches, row.detail) for row in report.results] == [(ScenarioResult.PASS, (), "")] * len(
        chosen
    )
