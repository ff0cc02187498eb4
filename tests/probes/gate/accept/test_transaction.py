"""Writing an accepted release whole, or not at all."""

from collections.abc import Callable
from pathlib import Path

import pytest

from turngate.errors import EnvironmentFailed
from turngate_probes.gate.accept import transaction
from turngate_probes.gate.accept.transaction import written


@pytest.fixture(name="recording")
def _recording(tmp_path: Path) -> Path:
    """A recording of one turn of a recorded case, aside."""
    turn = tmp_path / "aside/recording/main-first"
    turn.mkdir(parents=True)
    (turn / "stdout").write_text("new")
    return turn.parent


@pytest.fixture(name="place")
def _place(tmp_path: Path) -> Path:
    """A recording that is there already, with a file of no case."""
    place = tmp_path / "fixtures/codex/1.0.0"
    (place / "main-first").mkdir(parents=True)
    (place / "main-first/stdout").write_text("old")
    (place / "notes.md").write_text("kept")
    return place


def tree(folder: Path) -> dict[str, str]:
    """Read all files below a folder."""
    return {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*") if file.is_file()}


def test_files_and_recording_are_written(recording: Path, place: Path, tmp_path: Path) -> None:
    """The recording replaces that of its cases, and leaves what is no case's."""
    written({tmp_path / "pins/codex/package.json": "{}"}, recording, place)
    assert (tmp_path / "pins/codex/package.json").read_text() == "{}"
    assert tree(place) == {"main-first/stdout": "new", "notes.md": "kept"}


def failing(*_: object) -> None:
    """Fail as a full disk does."""
    raise OSError(28, "No space left on device")


def half_done(place: Path, *_: object) -> None:
    """Remove what was there, then fail."""
    (place / "main-first/stdout").unlink()
    failing()


@pytest.mark.parametrize("broken", [failing, half_done])
def test_everything_is_as_it_was_after_a_failure(
    recording: Path, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: Callable[..., None]
) -> None:
    """A new file is gone, a changed one has its old text, and the old recording stands where it stood."""
    changed, new = tmp_path / "codex.yaml", tmp_path / "package.json"
    changed.write_text("before")
    monkeypatch.setattr(transaction, "put_in_place", broken)
    with pytest.raises(EnvironmentFailed, match=r"nothing was accepted, because .* can't be written: No space"):
        written({changed: "after", new: "{}"}, recording, place)
    assert (changed.read_text(), new.exists()) == ("before", False)
    assert tree(place) == {"main-first/stdout": "old", "notes.md": "kept"}
