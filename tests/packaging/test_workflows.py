"""The workflows of the project, and those that its pages show."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.packaging.test_docs import blocks

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


@pytest.mark.long
def test_workflows_have_no_known_weakness(tmp_path: Path) -> None:
    """zizmor, without a network, finds nothing in the workflows, in the action, and in the workflow for users."""
    (shown,) = [block for block in blocks("yaml") if "jobs" in yaml.safe_load(block)]
    example = tmp_path / ".github/workflows/example.yml"
    example.parent.mkdir(parents=True)
    example.write_text(shown.replace("COMMIT", 40 * "0"))
    zizmor = (Path(sys.executable).with_name("zizmor"), "--offline", "--no-progress", "--min-severity", "medium")
    ended = subprocess.run(
        (*zizmor, *WORKFLOWS, ROOT / "action.yml", example), capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
