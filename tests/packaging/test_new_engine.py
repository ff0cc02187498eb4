"""A new engine is only data: in a copy of the repository with a made-up engine, the tests about engines pass."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.acceptance.command import HURRIED
from tests.conftest import UPDATE

ROOT = Path(__file__).parents[2]
BROOK = ROOT / "tests/fakes/brook"
COPIED = ("contracts", "probes", "reference", "tests", "fixtures", "docs", ".github")
# the tests of these that name the engine, or that are about all engines at once
TESTS = (
    "tests/contracts",
    "tests/snapshots",
    "tests/probes/test_record.py",
    "tests/probes/test_simulate.py",
    "tests/probes/releases/test_pins.py",
    "tests/probes/record/recorder/test_placeholders.py",
    "tests/probes/cli",
    "tests/probes/harness/test_cases.py",
    "tests/reference/server/orchestrator/test_profiles.py",
)
ABOUT_ALL = (
    "brook",
    "there_are_recordings",
    "every_engine",
    "only_known_engines",
    "agrees_with_every_recording",
    "are_small",
    "no_secret",
    "broken_is_what_misses",
    "recorded_exit_code",
    "engines_are_listed",
    "rest_is_named",
    "ranges",
)


def run(copy: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a copy of the repository, with the copy's packages."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COVERAGE"))}
    env["TURNGATE_CACHE_DIR"] = str(copy / "cache")
    python = copy / ".venv/bin/python"
    return subprocess.run((str(python), *command), cwd=copy, env=env, capture_output=True, text=True, check=False)


def install(copy: Path) -> None:
    """Make an environment with the copy's packages, and with everything else that this one has."""
    venv.create(copy / ".venv", symlinks=True)
    (site,) = (copy / ".venv").glob("lib/python*/site-packages")
    packages = [str(copy / name) for name in ("contracts", "probes", "reference")]
    (site / "copy.pth").write_text("\n".join([*packages, sysconfig.get_path("purelib")]))


def about_engines(copy: Path) -> subprocess.CompletedProcess[str]:
    """Run the copy's tests about engines."""
    chosen = ("-m", "not engines and not browser", "-k", " or ".join(ABOUT_ALL))
    return run(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen, *TESTS)


@pytest.fixture(name="copy")
def _copy(tmp_path: Path) -> Path:
    """Copy the repository, and add a made-up engine by its contract, its simulation and a recording."""
    copy = tmp_path / "turngate"
    for folder in COPIED:
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ROOT.glob("*.*"):
        if file.is_file():
            shutil.copy(file, copy / file.name)
    install(copy)
    shutil.copy(BROOK / "contract.yaml", copy / "contracts/turngate/engines/brook.yaml")
    shutil.copy(BROOK / "simulation.yaml", copy / "contracts/turngate/simulations/brook.yaml")
    engine = tmp_path / "brook"
    engine.write_text(f"#!{sys.executable}\n{(BROOK / 'engine.py').read_text('utf-8')}")
    engine.chmod(0o755)
    recorded = run(copy, "-c", HURRIED, "contracts", "record", f"brook={engine}", "--into", str(copy / "fixtures"))
    assert recorded.returncode == 0, recorded.stdout + recorded.stderr
    return copy


@pytest.mark.long
@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_a_made_up_engine_passes_the_tests_about_engines(copy: Path) -> None:
    """Without snapshots the tests name the command that writes them; after it, all tests pass.

    The engine prints its help on stderr, its answer in a list and its session id in the last record. It has no sticky
    process, no canaries, and no pin.
    """
    new = run(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "brook", "tests/snapshots")
    assert (new.returncode, UPDATE in new.stdout) == (1, True), new.stdout
    written = run(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--snapshot-update", "tests/snapshots")
    assert written.returncode == 0, written.stdout
    texts = (copy / "tests/snapshots/__snapshots__/test_recordings/test_handles[brook].json").read_text("utf-8")
    assert '"where": "sessions.0.id of the last record of stdout"' in texts
    passed = about_engines(copy)
    assert passed.returncode == 0, passed.stdout[-20000:]
