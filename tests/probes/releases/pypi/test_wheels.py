"""Resolving a package to wheels and their checksums."""

import re
from pathlib import Path

import pytest

from tests.probes.wheels import build, publish, use
from turngate.errors import MachineError
from turngate_probes.releases import pypi

pytestmark = pytest.mark.long


@pytest.fixture(name="index")
def _index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    use(tmp_path / "index", monkeypatch)
    monkeypatch.setattr(pypi, "PYTHONS", ("3.11",))
    return tmp_path / "index"


def locked(package: str, version: str, tmp_path: Path) -> tuple[list[tuple[str, list[str]]], frozenset[str]]:
    """Return the pinned packages with their digests, and the digests of the release itself."""
    folder = tmp_path / "lock"
    folder.mkdir()
    text, own = pypi.locked(package, version, folder, None)
    entries = re.findall(r"^(\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", text, re.MULTILINE)
    assert len(entries) == len(re.findall("^[a-z]", text, re.MULTILINE)), text
    return [(name, re.findall("[0-9a-f]{64}", hashes)) for name, hashes in entries], own


def test_the_release_comes_first(index: Path, tmp_path: Path) -> None:
    """The release and its dependencies are pinned at exact versions, whichever way its name is written."""
    digest = publish(index, "1.0.0")
    publish(index, "1.1.0")
    packages, own = locked("Vendor_Codex", "1.0.0", tmp_path)
    assert [name for name, _ in packages] == ["vendor-codex==1.0.0", "vendor-help==1.0.0"]
    assert packages[0][1] == [digest]
    assert own == {digest}


def test_the_wheels_of_other_platforms_are_pinned_too(index: Path, tmp_path: Path) -> None:
    """A pin that was made on one platform works on the others that have the release."""
    tags = ("manylinux_2_17_x86_64.manylinux2014_x86_64", "manylinux_2_28_aarch64", "macosx_11_0_arm64")
    digests = [build(index, "native", "1.0.0", {"native/bin/x": tag}, tag=f"py3-none-{tag}") for tag in tags]
    windows = build(index, "native", "1.0.0", {}, tag="py3-none-win_amd64")
    packages, own = locked("native", "1.0.0", tmp_path)
    assert packages == [("native==1.0.0", sorted(digests))]
    assert own == set(digests)
    assert windows not in own


def test_a_platform_without_a_dependency_is_left_out(index: Path, tmp_path: Path) -> None:
    """A release that has no wheel on one platform is pinned for the others."""
    tag = "py3-none-manylinux_2_17_x86_64.manylinux_2_17_aarch64"
    digest = build(index, "native", "1.0.0", {}, tag=tag)
    assert locked("native", "1.0.0", tmp_path) == ([("native==1.0.0", [digest])], frozenset({digest}))


def test_an_unknown_release_can_not_be_pinned(index: Path, tmp_path: Path) -> None:
    """A release that the index lacks is an error."""
    publish(index, "1.0.0")
    with pytest.raises(MachineError, match="there is no such release"):
        locked("vendor-codex", "2.0.0", tmp_path)
