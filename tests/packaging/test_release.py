"""What a release needs: notes, a workflow, and metadata that matches the classifiers and the CI."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / ".github/release_notes.py"
CHANGELOG = """# Changelog

## [Unreleased]

- Not out yet.

## [0.2.0] - 2026-12-01

### Fixed

- A fault.

## [0.1.0] - 2026-11-01

- First.
"""


@pytest.fixture(name="checkout")
def _checkout(tmp_path: Path) -> Path:
    (tmp_path / ".github").mkdir()
    (tmp_path / ".github/release_notes.py").write_text(SCRIPT.read_text())
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    return tmp_path


def noted(checkout: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run the script on a checkout."""
    script = checkout / ".github/release_notes.py"
    return subprocess.run((sys.executable, script, *argv), capture_output=True, text=True, check=False)


@pytest.mark.parametrize("version, notes", [("0.2.0", "### Fixed\n\n- A fault.\n"), ("0.1.0", "- First.\n")])
def test_the_notes_are_the_section_of_the_version(checkout: Path, version: str, notes: str) -> None:
    """The notes are the version's section without its heading, also at the end of the file."""
    assert noted(checkout, version).stdout == notes


@pytest.mark.parametrize("argv", [("0.3.0",), ("0.2",), ()])
def test_a_version_without_a_section_stops_the_release(checkout: Path, argv: tuple[str, ...]) -> None:
    """Without a section for the version the script fails, prints no notes and says why."""
    ended = noted(checkout, *argv)
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr


def workflow(name: str) -> Any:
    """Read a workflow."""
    return yaml.safe_load((ROOT / f".github/workflows/{name}.yml").read_text())


def test_only_the_job_that_publishes_may_and_only_after_the_tests() -> None:
    """Only one job may upload, after the tests, without a password and without running code of the repository."""
    jobs = workflow("release")["jobs"]
    assert [jobs[name]["needs"] for name in ("build", "publish", "notes")] == [["test", "night"], "build", "publish"]
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert not any("run" in step for step in jobs["publish"]["steps"])
    assert "secrets" not in (ROOT / ".github/workflows/release.yml").read_text()


def test_nothing_is_published_until_the_owner_switches_it_on() -> None:
    """The upload waits for a variable, the notes for the upload, and one file lists what the owner must do."""
    jobs = workflow("release")["jobs"]
    assert jobs["publish"]["if"] == "vars.PUBLISH == 'true'"
    assert "if" not in jobs["notes"]  # skipped with the job that it needs
    todo = (ROOT / "PUBLISHING.md").read_text()
    assert all(place in todo for place in ("[project.urls]", "`pypi`", "`PUBLISH`", "`GIT_HOST`"))


def test_the_packages_are_checked_before_they_are_attested() -> None:
    """The links work on the index before the build, and the index's own checks come before the attestation."""
    steps = [f"{step.get('run', '')}{step.get('uses', '')}" for step in workflow("release")["jobs"]["build"]["steps"]]
    order = ("index_readme.py", "-m build", "twine", "attest-build-provenance")
    places = [next(place for place, step in enumerate(steps) if word in step) for word in order]
    assert places == sorted(places)
    assert "check-wheel-contents" in steps[places[2]]


def test_links_of_the_readme_work_on_an_index(tmp_path: Path) -> None:
    """Relative links lead to the tag, images to their bytes; addresses and the text stay."""
    (tmp_path / ".github").mkdir()
    script = tmp_path / ".github/index_readme.py"
    script.write_text((ROOT / ".github/index_readme.py").read_text())
    (tmp_path / "README.md").write_text("[a](docs/a.md#b) ![c](c.png) [d](https://d.test/) [e](#e)\n")
    subprocess.run((sys.executable, script, "https://git.test/o/t", "v1.2.3"), check=True)
    base = "https://git.test/o/t"
    assert (tmp_path / "README.md").read_text() == (
        f"[a]({base}/blob/v1.2.3/docs/a.md#b) ![c]({base}/raw/v1.2.3/c.png) [d](https://d.test/) [e](#e)\n"
    )


def test_the_ci_tests_each_python_version_of_the_classifiers() -> None:
    """The CI tests these versions on the system that README promises, and also the lowest and newest dependencies."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    stated = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    matrix = workflow("ci")["jobs"]["tests"]["strategy"]["matrix"]
    assert matrix["python"] == stated
    assert project["requires-python"] == f">={stated[0]}"
    assert matrix["os"] == ["ubuntu-latest"]
    others = {row["dependencies"] for row in matrix["include"]}
    assert others == {"lowest", "newest"}
    assert others <= set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_the_hooks_check_what_make_check_does() -> None:
    """The commands in .pre-commit-config.yaml are those of `make check`."""
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    entries = {hook["id"]: hook["entry"].removeprefix(".venv/bin/") for hook in repository["hooks"]}
    makefile = (ROOT / "Makefile").read_text()
    assert f"$(BIN)/{entries['mypy']}\n" in makefile
    assert {entry.split()[0] for entry in entries.values()} == {"ruff", "mypy", "lint-imports", "turngate"}
