"""The README from top to bottom, in a fresh environment."""

import os
import re
import subprocess
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.engines


def commands(page: str) -> list[str]:
    """Return the commands of a page, in order."""
    blocks = re.findall(r"^```console\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return re.findall(r"^\$ (.*)$", "".join(blocks), re.MULTILINE)


def test_every_command_of_the_readme_works_in_order(tmp_path: Path) -> None:
    """The README's commands work in order in a new venv, with this checkout as the clone; the probe writes a report."""
    asked = commands((ROOT / "README.md").read_text("utf-8"))
    install = [command for command in asked if command.startswith("pip install ")]
    assert len(install) == 1
    assert len(asked) > len(install)
    venv.create(tmp_path / "venv", with_pip=True)
    folder = tmp_path / "empty"
    folder.mkdir()
    (folder / "turngate").symlink_to(ROOT)
    env = {**os.environ, "PATH": f"{tmp_path / 'venv/bin'}:{os.environ['PATH']}"}
    env = {name: value for name, value in env.items() if not name.startswith("PYTHON")}
    for command in (*install, *(command for command in asked if command not in install)):
        ended = subprocess.run(
            ("bash", "-c", command), cwd=folder, env=env, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, f"{command}\n{ended.stdout}{ended.stderr}"
    assert (folder / "report.html").exists()
