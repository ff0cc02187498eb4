"""Where recordings are found, for which releases, and which are listed as broken."""

import shutil
from pathlib import Path

import pytest

from turngate.errors import ContractError
from turngate_probes.releases import recorded_releases
from turngate_probes.releases.recorded_releases import BROKEN, ContractRecordings, contract_recordings

SHIPPED = Path(__file__).parents[3] / "fixtures"

VERSION = "0.5.19"


@pytest.fixture(name="first")
def _first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy one shipped recording into an otherwise empty folder of recordings; return the recording's folder."""
    monkeypatch.setenv("TURNGATE_FIXTURES", str(tmp_path))
    place = Path("iflow") / VERSION / "main-first"
    shutil.copytree(SHIPPED / place, tmp_path / place)
    return tmp_path / place


def test_they_are_found_where_the_user_says(first: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the variable is set only its folder counts, even an empty one; else working directory, checkout, package."""
    assert recorded_releases.folders() == [tmp_path]
    monkeypatch.setenv("TURNGATE_FIXTURES", str(tmp_path / "none"))
    assert recorded_releases.folders() == []
    monkeypatch.delenv("TURNGATE_FIXTURES")
    monkeypatch.chdir(tmp_path)
    assert recorded_releases.folders() == [SHIPPED]
    (tmp_path / "fixtures").mkdir()
    assert recorded_releases.folders() == [Path("fixtures"), SHIPPED]
    monkeypatch.setattr(recorded_releases, "PACKAGED", tmp_path)
    assert recorded_releases.folders() == [Path("fixtures"), SHIPPED, tmp_path]


def test_fixtures_of_somebody_else_hide_no_recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `fixtures` folder in the working directory hides no other recordings; it comes first if it has the release."""
    monkeypatch.delenv("TURNGATE_FIXTURES", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fixtures/users").mkdir(parents=True)
    assert recorded_releases.releases("iflow") == {VERSION: SHIPPED}
    (tmp_path / "fixtures/iflow" / VERSION).mkdir(parents=True)
    assert recorded_releases.releases("iflow") == {VERSION: Path("fixtures")}


def test_only_a_checkout_has_a_folder_to_record_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recordings are written to a checkout in the working directory; elsewhere there is no default folder."""
    monkeypatch.chdir(SHIPPED.parent / "tests")
    assert recorded_releases.default_folder() == SHIPPED
    monkeypatch.chdir(tmp_path)
    assert recorded_releases.default_folder() is None
    monkeypatch.setattr(recorded_releases, "CHECKOUT", tmp_path / "none")
    assert recorded_releases.default_folder() is None


def test_the_newest_is_found_by_version(first: Path) -> None:
    """Versions are compared as versions, not as text; an engine without recordings has no newest one."""
    first.parents[1].joinpath("0.5.9").mkdir()
    assert recorded_releases.newest("iflow") == VERSION
    first.parents[1].joinpath("0.10.0").mkdir()
    assert recorded_releases.newest("iflow") == "0.10.0"
    assert recorded_releases.newest("codex") is None


def test_a_release_is_read_from_the_nearest_folder_that_has_it(tmp_path: Path) -> None:
    """Releases are listed oldest first, each from the nearest folder; folders that are no version are ignored."""
    for release in ("near/codex/0.9.0", "far/codex/0.9.0", "far/codex/0.10.0", "far/codex/notes"):
        (tmp_path / release).mkdir(parents=True)
    recordings = ContractRecordings((tmp_path / "near", tmp_path / "far"), whole=True)
    assert recordings.releases("codex") == {"0.9.0": tmp_path / "near", "0.10.0": tmp_path / "far"}
    assert list(recordings.releases("codex")) == ["0.9.0", "0.10.0"]
    assert recordings.releases("gemini") == {}


def test_a_recording_is_missing_for_sure_only_where_its_release_is_known(first: Path, tmp_path: Path) -> None:
    """A recording is missing if its release is known here; else another checkout may have it, unless `whole` is set."""
    some, whole = (ContractRecordings((tmp_path,), whole=known) for known in (False, True))
    here = f"iflow/{VERSION}/main-first"
    assert [recordings.lacks(here) for recordings in (some, whole)] == [False, False]
    assert [recordings.lacks(f"iflow/{VERSION}/main-other") for recordings in (some, whole)] == [True, True]
    assert [recordings.lacks("iflow/9.9.9/main-first") for recordings in (some, whole)] == [False, True]


def test_releases_are_listed_as_broken_with_what_is_wrong(tmp_path: Path) -> None:
    """Only broken releases of the engine are listed, with the reason; a file that is no list is rejected."""
    recordings = ContractRecordings((tmp_path,), whole=True)
    assert recordings.broken("codex") == set()
    (tmp_path / BROKEN).write_text("codex@0.42.0: it prints no id\ngemini@0.20.2: the same\n")
    assert recordings.broken("codex") == {"codex@0.42.0"}
    (tmp_path / BROKEN).write_text("codex@0.42.0:\n")
    with pytest.raises(ContractError, match="is not a list of broken releases"):
        recordings.broken("codex")


def test_a_contract_has_the_recordings_of_its_overlay_and_of_the_checkout(tmp_path: Path) -> None:
    """Recordings in the overlay come first; a folder that the user names is used without others."""
    (tmp_path / "fixtures").mkdir()
    beside = contract_recordings(tmp_path / "engines/codex.yaml")
    assert beside == ContractRecordings([tmp_path / "fixtures", SHIPPED], whole=True)
    named = contract_recordings(tmp_path / "engines/codex.yaml", tmp_path)
    assert named == ContractRecordings((tmp_path,), whole=True)


def test_an_installed_contract_has_the_recordings_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installed package has only some of the recordings."""
    monkeypatch.setattr(recorded_releases, "CHECKOUT", tmp_path / "none")
    assert contract_recordings(tmp_path / "iflow.yaml") is None
    monkeypatch.setattr(recorded_releases, "PACKAGED", tmp_path)
    assert contract_recordings(tmp_path / "iflow.yaml") == ContractRecordings([tmp_path], whole=False)
