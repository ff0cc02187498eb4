"""Where reports say that something stands: only in files that the checkout has for which they are shown."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from tests.probes.report import samples
from turngate.files import contract_files, use_overlay
from turngate_probes.report.source_locations import FOLDER, below, place_of

OURS = contract_files()["codex"]
RELEASE = samples.mixed().releases[0]


@pytest.fixture(name="root")
def _root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Play a workflow in the checkout of somebody, and take any overlay away afterwards."""
    (tmp_path / "checkout").mkdir()
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path / "checkout"))
    yield tmp_path / "checkout"
    use_overlay(None)


def test_our_own_contract_is_named_in_our_checkout_alone(root: Path) -> None:
    """Elsewhere there is no such file, and an annotation would be lost."""
    assert place_of(RELEASE, "resume.accepted") is None
    (root / FOLDER).mkdir(parents=True)
    shutil.copy(OURS, root / FOLDER)
    place = place_of(RELEASE, "resume.accepted")
    assert place is not None
    assert place[0] == "contracts/turngate/engines/codex.yaml"
    assert place[1] > 1


def test_a_contract_of_ones_own_is_named_where_it_lies(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its path below the checkout, however the folder was given, with the line in that file."""
    own = root / "turngate/engines"
    own.mkdir(parents=True)
    (own / "codex.yaml").write_text("# ours\n" * 10 + OURS.read_text("utf-8"), "utf-8")
    usual = place_of(RELEASE, "resume.accepted")
    use_overlay(root / "turngate")
    place = place_of(RELEASE, "resume.accepted")
    assert usual is None
    assert place is not None
    assert place[0] == "turngate/engines/codex.yaml"
    line = (own / "codex.yaml").read_text("utf-8").splitlines()[place[1] - 1]
    assert line.startswith("  start: ")
    monkeypatch.chdir(root)
    use_overlay(Path("turngate"))
    assert place_of(RELEASE, "resume.accepted") == place


def test_what_lies_outside_the_checkout_is_not_named(root: Path) -> None:
    """Neither a contract nor any other file; the engines of another turngate are none of ours."""
    own = root.parent / "elsewhere/engines"
    own.mkdir(parents=True)
    shutil.copy(OURS, own)
    use_overlay(own.parent)
    assert place_of(RELEASE, "resume.accepted") is None
    assert below(own / "codex.yaml") is None
    assert below(root / "missing.yaml") is None
    assert place_of(structs.replace(RELEASE, engine="another", version=None), "resume.accepted") is None
