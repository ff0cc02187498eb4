"""Writing an accepted release completely, or not at all."""

from collections.abc import Callable
from pathlib import Path

import pytest

from turngate.errors import MachineError
from turngate_probes.gate.accept import transaction
from turngate_probes.gate.accept.transaction import written


@pytest.fixture(name="recording")
def _recording(tmp_path: Path) -> Path:
    """A new recording of one turn, in a temporary folder."""
    turn = tmp_path / "aside/recording/main-first"
    turn.mkdir(parents=True)
    (turn / "stdout").write_text("new")
    return turn.parent


@pytest.fixture(name="place")
def _place(tmp_path: Path) -> Path:
    """An existing recording, next to a file that belongs to no case."""
    place = tmp_path / "fixtures/codex/1.0.0"
    (place / "main-first").mkdir(parents=True)
    (place / "main-first/stdout").write_text("old")
    (place / "notes.md").write_text("kept")
    return place


def tree(folder: Path) -> dict[str, str]:
    """Return the text of all files below a folder."""
    return {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*") if file.is_file()}


def test_files_and_recording_are_written(recording: Path, place: Path, tmp_path: Path) -> None:
    """The new recording replaces those of the same cases and leaves other files alone."""
    written({tmp_path / "pins/codex/package.json": "{}"}, recording, place)
    assert (tmp_path / "pins/codex/package.json").read_text() == "{}"
    assert tree(place) == {"main-first/stdout": "new", "notes.md": "kept"}


def failing(*_: object) -> None:
    """Fail as if the disk were full."""
    raise OSError(28, "No space left on device")


def half_done(place: Path, *_: object) -> None:
    """Remove an old file, then fail."""
    (place / "main-first/stdout").unlink()
    failing()


@pytest.mark.parametrize("broken", [failing, half_done])
def test_everything_is_as_it_was_after_a_failure(
    recording: Path, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: Callable[..., None]
) -> None:
    """After a failure new files are removed, and changed files and old recordings are restored."""
    changed, new = tmp_path / "codex.yaml", tmp_path / "package.json"
    changed.write_text("before")
    monkeypatch.setattr(transaction, "put_in_place", broken)
    with pytest.raises(MachineError, match=r"nothing was accepted, because .* can't be written: No space"):
        written({changed: "after", new: "{}"}, recording, place)
    assert (changed.read_text(), new.exists()) == ("before", False)
    assert tree(place) == {"main-first/stdout": "old", "notes.md": "kept"}
