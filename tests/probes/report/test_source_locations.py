"""Findings point at a file in the user's repository, never at one of the package."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from tests.probes.report import samples
from turngate_probes.report.source_locations import below, fallback_of, place_of, root, use_anchor

RELEASE = samples.mixed().releases[0]
PIN = '{\n  "dependencies": {\n    "@openai/codex": "0.169.0"\n  }\n}\n'


@pytest.fixture(name="repository", autouse=True)
def _repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Work in an empty repository, and remove the anchor afterwards."""
    folder = tmp_path / "repository"
    write(folder / ".git/HEAD", "ref: refs/heads/main")
    monkeypatch.chdir(folder)
    for name in ("GITHUB_WORKSPACE", "GITHUB_WORKFLOW_REF", "GITHUB_REPOSITORY"):
        monkeypatch.delenv(name, raising=False)
    yield folder
    use_anchor(None)


def write(file: Path, text: str) -> Path:
    """Write a file, with missing folders."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_an_empty_repository_has_no_place(repository: Path) -> None:
    """An empty repository has no location, so the renderer chooses one."""
    assert place_of(RELEASE) is None


def test_a_finding_belongs_to_the_pin_of_the_engine(repository: Path) -> None:
    """A finding points at the line that names the package, not at its installed copy."""
    write(repository / "node_modules/x/package.json", PIN)
    write(repository / ".venv/lib/site-packages/package.json", PIN)
    write(repository / "venv/lib/site-packages/package.json", PIN)
    write(repository / "package.json", '{"dependencies": {"@openai/codex-sdk": "1.0.0", "my/@openai/codex": "1"}}')
    write(repository / "engines/codex/package.json", PIN)
    assert place_of(RELEASE) == ("engines/codex/package.json", 3)


@pytest.mark.parametrize(
    "name, line",
    [
        ("Dockerfile", "RUN npm install -g @openai/codex@0.169.0"),
        ("ci/agent.Dockerfile", "RUN npm install --global '@openai/codex@0.169.0'"),
        ("requirements-dev.txt", "openai-codex-cli-bin==0.169.0"),
        ("pyproject.toml", 'dependencies = ["openai-codex-cli-bin>=0.169"]'),
    ],
)
def test_a_pin_is_known_in_several_kinds_of_files(repository: Path, name: str, line: str) -> None:
    """Pins are recognized in several kinds of npm and PyPI files."""
    write(repository / name, f"# first\n{line}\n")
    assert place_of(RELEASE) == (name, 2)


def test_the_pin_of_the_very_release_comes_first(repository: Path) -> None:
    """Of several pins the one with the same version wins, else the one nearest to the repository root."""
    write(repository / "package.json", PIN.replace("0.169.0", "0.147.0"))
    write(repository / "new/package.json", PIN)
    assert place_of(structs.replace(RELEASE, version="0.100.0")) == ("package.json", 3)
    assert place_of(RELEASE) == ("new/package.json", 3)


def test_without_a_pin_a_finding_belongs_to_the_workflow(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a pin a finding points at the workflow, unless that belongs to another repository."""
    monkeypatch.setenv("GITHUB_REPOSITORY", "me/mine")
    monkeypatch.setenv("GITHUB_WORKFLOW_REF", "me/mine/.github/workflows/engines.yml@refs/heads/a@b")
    assert place_of(RELEASE) == (".github/workflows/engines.yml", 1)
    assert place_of(structs.replace(RELEASE, engine="another", version=None)) == (".github/workflows/engines.yml", 1)
    monkeypatch.setenv("GITHUB_WORKFLOW_REF", "me/shared/.github/workflows/engines.yml@refs/heads/main")
    assert place_of(RELEASE) is None


def test_an_anchor_goes_before_everything_else(repository: Path) -> None:
    """An anchor given by the user wins over all other locations; a file outside the repository is rejected."""
    write(repository / "package.json", PIN)
    anchor = write(repository / "docs/engines.md", "")
    for given in (anchor, Path("docs/engines.md"), Path("docs/../docs/engines.md")):
        use_anchor(given)
        assert place_of(RELEASE, "package.json:2") == ("docs/engines.md", 1)
    for wrong in (repository / "missing", write(repository.parent / "outside", ""), repository / "docs"):
        with pytest.raises(ValueError, match="is not a file in the repository"):
            use_anchor(wrong)


def test_an_entry_of_a_baseline_is_a_place_of_its_own(repository: Path) -> None:
    """An entry of a baseline file in the repository is its own location."""
    write(repository / "baseline.yaml", "")
    outside = write(repository.parent / "baseline.yaml", "")
    assert place_of(RELEASE, "baseline.yaml:7") == ("baseline.yaml", 7)
    assert place_of(RELEASE, f"{outside}:7") is None
    assert place_of(RELEASE, "\0:7") is None


def test_the_repository_is_the_checkout_around_the_working_directory(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paths are relative to the root of the checkout, else to the workflow's workspace, else to this folder."""
    write(repository / "sub/file", "")
    monkeypatch.chdir(repository / "sub")
    assert (root(), below("file")) == (repository, "sub/file")
    bare = repository.parent / "bare"
    (bare / ".git").mkdir(parents=True)
    (bare / "sub").mkdir()
    monkeypatch.chdir(bare / "sub")
    # an empty `.git` makes no checkout
    assert root() == bare / "sub"
    monkeypatch.setenv("GITHUB_WORKSPACE", str(repository))
    assert root() == repository
    (bare / ".git").rmdir()
    write(bare / ".git", f"gitdir: {repository}/.git/worktrees/bare")
    assert root() == bare


def test_a_report_is_named_by_its_place_in_the_repository(repository: Path) -> None:
    """A report is named by its path in the repository, before it exists too; one elsewhere by its file name."""
    assert fallback_of(Path("reports/turngate.sarif")) == "reports/turngate.sarif"
    assert fallback_of(repository.parent / "turngate.sarif") == "turngate.sarif"
