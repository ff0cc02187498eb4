"""The files with which a project begins."""

import json
from importlib import metadata
from pathlib import Path
from unittest.mock import Mock

import pytest
import yaml

from tests.tables import each
from turngate_probes.gate import first_files as module
from turngate_probes.gate.first_files import UNKNOWN_SOURCE, engines_of, first_files, source_of_turngate
from turngate_probes.gate.settings import read_settings

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_a_project_gets_settings_and_the_job_of_its_ci(tmp_path: Path) -> None:
    """The settings are valid, the jobs run the gate with the source, and a project without CI gets no job."""
    (settings,) = first_files(tmp_path, ["codex", "claude"], "turngate==1.2.3")
    assert settings.path == Path("turngate.toml")
    (tmp_path / ".github").mkdir()
    (tmp_path / ".gitlab-ci.yml").touch()
    files = list(first_files(tmp_path, ["codex", "claude"], "turngate==1.2.3"))
    assert [str(file.path) for file in files[1:]] == [".github/workflows/turngate.yml", ".gitlab/turngate.yml"]
    assert [file.then for file in files[1:]] == ["", "add to .gitlab-ci.yml: include: [{local: .gitlab/turngate.yml}]"]
    github, gitlab = (yaml.safe_load(file.text) for file in files[1:])
    assert github["jobs"]["gate"]["env"]["TURNGATE"] == gitlab["turngate"]["variables"]["TURNGATE"] == "turngate==1.2.3"
    for file in files:
        (tmp_path / file.path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file.path).write_text(file.text)
    assert read_settings(tmp_path).values["engines"] == ("codex", "claude")
    assert list(first_files(tmp_path, ["codex"], "turngate==1.2.3")) == []


def test_settings_say_which_releases_are_in_use(tmp_path: Path) -> None:
    """They name the file that pins an engine, and how to name the release of one that none pins."""
    (tmp_path / "package.json").write_text('{"devDependencies": {"@openai/codex": "0.147.0"}}')
    (settings,) = first_files(tmp_path, ["claude", "codex"], "turngate==1.2.3")
    assert "# The release of codex in use is the one that package.json pins.\n" in settings.text
    assert '# in-use = ["claude@VERSION"]\n' in settings.text
    (tmp_path / "Dockerfile").write_text("RUN npm install -g @openai/codex@0.150.0\n")
    (settings,) = first_files(tmp_path, ["codex"], "turngate==1.2.3")
    assert "don't pin one release of codex" in settings.text


def test_settings_in_pyproject_are_settings(tmp_path: Path) -> None:
    """A project that has its settings in pyproject.toml gets no second file."""
    (tmp_path / "pyproject.toml").write_text('[tool.turngate]\nengines = ["codex"]\n')
    assert list(first_files(tmp_path, ["codex"], "turngate==1.2.3")) == []


def test_pinned_engines_come_before_installed_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a project pins decides; without pins, what is on PATH."""
    monkeypatch.setattr(module, "not_installed", lambda name: "" if name == "claude" else "absent")
    assert engines_of(tmp_path) == ["claude"]
    (tmp_path / "package.json").write_text('{"dependencies": {"@openai/codex": "0.147.0"}}')
    assert engines_of(tmp_path) == ["codex"]


@each(
    "origin, source",
    [
        (None, "turngate==1.2.3"),
        (
            {"url": "https://host.test/o/turngate", "vcs_info": {"vcs": "git", "commit_id": COMMIT}},
            f"git+https://host.test/o/turngate@{COMMIT}",
        ),
        ({"url": "file:///home/me/turngate", "dir_info": {"editable": True}}, UNKNOWN_SOURCE),
    ],
)
def test_ci_installs_turngate_from_where_it_came(
    origin: object, source: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What an index or a repository gave is installed again; of a folder, the user must say where to get it."""
    installed = Mock(version="1.2.3", read_text=lambda _: json.dumps(origin) if origin else None)
    monkeypatch.setattr(metadata, "distribution", lambda _: installed)
    assert source_of_turngate() == source
    (tmp_path / ".github").mkdir(exist_ok=True)
    *_, job = first_files(tmp_path, ["codex"], source)
    assert job.then.startswith("set TURNGATE") == (source == UNKNOWN_SOURCE)
