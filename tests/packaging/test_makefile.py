"""What `make probe` tests."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.probes import engines

ROOT = Path(__file__).parents[2]


@pytest.mark.long
@pytest.mark.parametrize("installed", [True, False], ids=["installed", "fresh"])
def test_make_probe_tests_what_is_installed_or_the_pins(tmp_path: Path, installed: bool) -> None:  # noqa: FBT001
    """With an engine on PATH only that is tested; on a fresh machine the pinned releases are, here without npm."""
    for name in ("make", "sh", "grep"):
        (tmp_path / name).symlink_to(shutil.which(name) or name)
    if installed:
        engines.install(tmp_path)
    env = {"PATH": str(tmp_path), "HOME": str(tmp_path), "TURNGATE_CACHE_DIR": str(tmp_path / "cache")}
    command = ("make", "-o", "setup", "probe", f"BIN={Path(sys.executable).parent}", "ARGS=--level static")
    ran = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == (0 if installed else 2), ran.stdout + ran.stderr
    assert ("codex  0.169.0  compatible" in ran.stdout) is installed
    assert ("npm is not on PATH" in ran.stdout) is not installed
