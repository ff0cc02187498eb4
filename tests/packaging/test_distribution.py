"""The contents of wheel and sdist, and the command of an installed wheel."""

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from tests.packaging.test_python_api import EXAMPLES

pytestmark = [pytest.mark.long, pytest.mark.nightly]

ROOT = Path(__file__).parents[2]
SOURCES = {
    "turngate": ROOT / "contracts",
    "turngate_probes": ROOT / "probes",
    "turngate_reference": ROOT / "reference",
}


RECORDED = ROOT / "fixtures/iflow"
RECORDED_THERE = "turngate_probes/recordings/iflow"


def recordings() -> set[str]:
    """List every shipped recording by its path in the wheel."""
    return {f"{RECORDED_THERE}/{path.relative_to(RECORDED)}" for path in RECORDED.rglob("*") if path.is_file()}


def source_files() -> set[str]:
    """List every file of the three packages by its path in the wheel."""
    return {
        path.relative_to(parent).as_posix()
        for package, parent in SOURCES.items()
        for path in (parent / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def run(*argv: str | Path) -> str:
    """Run a program outside the checkout, without variables that point back to it."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    ran = subprocess.run(argv, cwd="/", env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(name="dist", scope="module")
def _dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sdist, and the wheel from it, with the installed tools."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    return folder


@pytest.fixture(name="installed", scope="module")
def _installed(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install only the wheel in a new environment that shares the dependencies of this one."""
    home = tmp_path_factory.mktemp("venv")
    venv.create(home, symlinks=True)
    python = home / "bin/python"
    (wheel,) = dist.glob("*.whl")
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel)
    # .pth files in a folder that another .pth file adds are ignored, so the checkout isn't imported
    (site,) = (home / "lib").glob("python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return home


def test_wheel_holds_every_file_of_the_packages(dist: Path) -> None:
    """The wheel has exactly the three packages and the recordings of the withdrawn engine, which stay small."""
    (wheel,) = dist.glob("*.whl")
    packed = [row for row in zipfile.ZipFile(wheel).infolist() if ".dist-info/" not in row.filename]
    held = {row.filename for row in packed}
    assert held == source_files() | recordings()
    assert sum(row.compress_size for row in packed if row.filename.startswith(RECORDED_THERE)) < 10**6
    assert "turngate/engines/codex.yaml" in held
    assert "turngate_probes/releases/pins/codex/package-lock.json" in held


def test_sdist_holds_what_tests_need(dist: Path) -> None:
    """The sdist holds the packages, the tests, the docs, the locked requirements and the licence."""
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    here = Path(__file__).relative_to(ROOT).as_posix()
    assert {f"{SOURCES[name.partition('/')[0]].name}/{name}" for name in source_files()} <= held
    assert {here, "requirements/dev.txt", "LICENSE", "README.md", "Makefile", "pyproject.toml"} <= held
    assert {"mkdocs.yml", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"} <= held
    assert {page.relative_to(ROOT).as_posix() for page in (ROOT / "docs").rglob("*") if page.is_file()} <= held


def test_installed_wheel_runs_from_its_own_files(installed: Path) -> None:
    """The packages are imported from the environment, not from the checkout."""
    for package in SOURCES:
        file = run(installed / "bin/python", "-c", f"import {package}; print({package}.__file__)").strip()
        assert Path(file).is_relative_to(installed)


def test_installed_command_lists_its_subcommands(installed: Path) -> None:
    """The installed command lists the subcommands that the wheel registers."""
    shown = run(installed / "bin/turngate", "--help")
    assert all(f"\n  {name} " in shown for name in ("contracts", "engines", "probe"))


def test_installed_command_judges_recordings(installed: Path, tmp_path: Path) -> None:
    """The wheel has the recordings of an engine that can't be installed, and what judges them."""
    env = {"PATH": str(tmp_path), "HOME": str(tmp_path), "TURNGATE_CACHE_DIR": str(tmp_path / "cache")}
    command = (installed / "bin/turngate", "probe", "iflow")
    ran = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "iflow  0.5.19  compatible" in ran.stdout


def test_installed_command_validates_its_contracts(installed: Path) -> None:
    """The contracts in the wheel are valid where it is installed."""
    assert "codex" in run(installed / "bin/turngate", "contracts", "check")


def test_a_program_that_uses_the_python_api_is_typed(installed: Path, tmp_path: Path) -> None:
    """The page's examples pass strict mypy with the installed wheel; a mistyped name or attribute doesn't."""
    check = (sys.executable, "-m", "mypy", "--strict", "--python-executable", installed / "bin/python", "--cache-dir")
    for number, example in enumerate(EXAMPLES):
        file = tmp_path / f"example_{number}.py"
        file.write_text(example)
        run(*check, tmp_path / "cache", file)
        made = re.search(r"turngate\.([A-Z]\w+)\(", example)
        for right in (made[1], "final_data") if made else ("nearest", "verdict"):
            assert right in example
            mistyped = tmp_path / f"{right}_{number}.py"
            mistyped.write_text(example.replace(right, f"mis_{right}"))
            with pytest.raises(AssertionError, match=f"error: .*mis_{right}"):
                run(*check, tmp_path / "cache", mistyped)
