"""`turngate conform` passes, with the example as the orchestrator."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TURNGATE = str(Path(sys.executable).with_name("turngate"))


@pytest.mark.timeout(900)
def test_the_example_conforms(database: str, tmp_path: Path) -> None:
    """It passes every scenario that Codex can play."""
    driver, report = str(Path(__file__).parents[1] / "driver.py"), str(tmp_path / "report.json")
    command = [TURNGATE, "conform", "--jobs", "4", "--report", report, "--", sys.executable, driver]
    ran = subprocess.run(
        command, env=os.environ | {"FLEET_DATABASE": database}, capture_output=True, text=True, check=False
    )
    results = json.loads((tmp_path / "report.json").read_text("utf-8"))["results"]
    left = {row["scenario"]: row["result"] for row in results if row["result"] != "pass"}
    assert left == {"late-text": "skipped"}
    assert (ran.returncode, len(results) > 30) == (0, True), ran.stdout
