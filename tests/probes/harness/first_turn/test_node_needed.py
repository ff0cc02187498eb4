"""Which Node.js a package asks for, and whether the one on PATH is older."""

import json
from pathlib import Path

import pytest

from turngate_probes.harness import first_turn
from turngate_probes.harness.first_turn import newer_node_needed


def package(folder: Path, manifest: str) -> Path:
    """Write a package with an executable, and return a link to it in another folder."""
    (folder / "package" / "dist").mkdir(parents=True)
    (folder / "package" / "package.json").write_text(manifest)
    (folder / "package" / "dist" / "cli.js").touch()
    link = folder / "bin" / "engine"
    link.parent.mkdir()
    link.symlink_to(folder / "package" / "dist" / "cli.js")
    return link


@pytest.mark.parametrize(
    "wanted, here, needed",
    [
        (">=22.19.0", "v20.20.2", "22.19.0"),
        (">= v22", "v20.20.2", "22"),
        (">=20.20.2", "v20.20.2", None),
        (">=9", "v20.20.2", None),
        ("^20 || >=22", "v20.20.2", None),
        ("", "v20.20.2", None),
        (">=22", None, None),
        (">=22", "node", None),
    ],
)
def test_the_version_that_a_package_asks_for(
    wanted: str, here: str | None, needed: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Versions are compared as numbers; ranges of another form are left to the release."""
    monkeypatch.setattr(first_turn, "node_version", lambda: here)
    assert newer_node_needed(package(tmp_path, json.dumps({"engines": {"node": wanted}}))) == needed


@pytest.mark.parametrize("manifest", ["", "{", "[]", "{}", '{"engines": []}', '{"engines": {"node": {}}}', '"\\ud800"'])
def test_a_package_that_asks_for_nothing_readable(
    manifest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks for no version."""
    monkeypatch.setattr(first_turn, "node_version", lambda: "v20.20.2")
    assert newer_node_needed(package(tmp_path, manifest)) is None


def test_an_executable_without_a_package(tmp_path: Path) -> None:
    """It asks for no version, even if it doesn't exist."""
    assert newer_node_needed(tmp_path / "engine") is None
