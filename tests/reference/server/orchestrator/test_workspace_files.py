"""Tests of what a turn changed in the directory of its run, which belongs to an engine."""

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from turngate_reference.server.orchestrator import workspace_files
from turngate_reference.server.orchestrator.workspace_files import changes, is_artifact, patch, read, snapshot, text


@pytest.fixture(name="run", params=["own", "workspace"])
def _run(tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    """Provide a run in a directory of its own, and one in a caller's."""
    cwd = tmp_path / "work"
    cwd.mkdir()
    workspace = cwd if request.param == "workspace" else None
    return SimpleNamespace(
        cwd=cwd, workspace=workspace, run_directory=tmp_path, artifacts=cwd / "artifacts" / "k3n9x2ab"
    )


def told(run: Any, before: workspace_files.Snapshot) -> list[tuple[str, str, bytes | None]]:
    """Return what has changed since the snapshot."""
    return [(file.path, file.change, file.before) for file in changes(run, before).files]


def test_changes_are_found(run: Any) -> None:
    """Files are added, modified and deleted, and the earlier texts are known; other files are left out."""
    for name in ("same", "modified", "touched", "gone"):
        (run.cwd / name).write_text(name)
    (run.cwd / "binary").write_bytes(b"\0")
    before = snapshot(run, with_texts=True)
    (run.cwd / "modified").write_text("now")
    (run.cwd / "binary").write_bytes(b"\0\1")
    (run.cwd / "touched").write_text("touched")
    (run.cwd / "gone").unlink()
    (run.cwd / "deep" / "er").mkdir(parents=True)
    (run.cwd / "deep" / "er" / "new").write_text("new")
    (run.cwd / ".git").mkdir()
    (run.cwd / ".git" / "config").write_text("x")
    (run.cwd / "link").symlink_to("same")
    os.mkfifo(run.cwd / "pipe")
    assert told(run, before) == [
        ("binary", "modified", None),
        ("deep/er/new", "added", None),
        ("gone", "deleted", b"gone"),
        ("modified", "modified", b"modified"),
    ]
    assert changes(run, before).gap is None


def test_a_missing_directory_is_empty(run: Any) -> None:
    """A run's own directory is made by its first turn."""
    run.cwd.rmdir()
    before = snapshot(run, with_texts=True)
    run.artifacts.mkdir(parents=True)
    (run.artifacts / "result").write_text("x")
    (changed,) = changes(run, before).files
    assert changed.path == "artifacts/k3n9x2ab/result"
    assert is_artifact(run, changed.path)
    assert not is_artifact(run, "artifacts/other")


def test_too_many_files_are_told(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The artifacts are looked at first; nothing is taken for new or deleted that may have been there before."""
    monkeypatch.setattr(workspace_files, "MAX_ENTRIES", 10)
    for number in range(20):
        (run.cwd / f"{number:02}").write_text("x")
    before = snapshot(run, with_texts=True)
    (run.cwd / "00").write_text("y")
    (run.cwd / "01").unlink()
    found = changes(run, before)
    assert [(file.path, file.change) for file in found.files] == [("00", "modified")]
    assert found.gap
    assert "more than 20000 files" in found.gap
    empty = workspace_files.Snapshot()
    run.artifacts.mkdir(parents=True)
    (run.artifacts / "result").write_text("x")
    assert "artifacts/k3n9x2ab/result" in {file.path for file in changes(run, empty).files}


def test_too_deep_directories_and_odd_names_are_told(run: Any) -> None:
    """Both are left out."""
    before = snapshot(run, with_texts=True)
    deep = run.cwd.joinpath(*["d"] * (workspace_files.MAX_DEPTH + 2))
    deep.mkdir(parents=True)
    (deep / "x").touch()
    found = changes(run, before)
    assert (found.files, found.gap) == ([], "directories more than 32 levels deep are not looked at")
    os.close(os.open(os.fsencode(run.cwd) + b"/\xff", os.O_CREAT | os.O_WRONLY))
    assert changes(run, before).files == []


def test_texts_are_bounded(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large texts, and those for which there is no room, are compared but not kept."""
    monkeypatch.setattr(workspace_files, "MAX_TEXTS", 5)
    (run.cwd / "large").write_bytes(b"x" * (workspace_files.MAX_TEXT + 1))
    for name in ("a", "b"):
        (run.cwd / name).write_text("four")
    before = snapshot(run, with_texts=True)
    assert list(before.texts) == ["a"]
    for name in ("a", "b", "large"):
        (run.cwd / name).write_text("other")
    assert told(run, before) == [("a", "modified", b"four"), ("b", "modified", None), ("large", "modified", None)]


def test_no_link_leads_outside(run: Any, tmp_path: Path) -> None:
    """Neither as a file nor as a directory above it, nor as the directory of the run itself."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (run.cwd / "link").symlink_to(outside / "secret")
    (run.cwd / "folder").symlink_to(outside)
    (run.cwd / "inside").write_text("inside")
    os.mkfifo(run.cwd / "pipe")
    assert read(run, "inside", 9) == b"inside"
    for path in (
        "link",
        "folder/secret",
        "../outside/secret",
        "folder/../inside",
        "/etc/passwd",
        "",
        ".",
        "..",
        "pipe",
        "folder",
    ):
        with pytest.raises(OSError):  # noqa: PT011 - which one depends on the system
            read(run, path, 9)
    (run.cwd / "inside").unlink()
    for path in (run.cwd / "link", run.cwd / "folder", run.cwd / "pipe"):
        path.unlink()
    run.cwd.rmdir()
    run.cwd.symlink_to(outside)
    with pytest.raises(OSError):  # noqa: PT011
        read(run, "secret", 9)
    found = snapshot(run, with_texts=True)
    assert (found.stamps, found.texts) == ({}, {})
    assert found.gap


def test_what_can_not_be_read_is_told(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other files are compared all the same."""
    (run.cwd / "a").write_text("x")
    (run.cwd / "b").write_text("x")
    real = os.stat

    def refused(path: Any, **options: Any) -> os.stat_result:
        if path == "a":
            raise PermissionError(13, "Permission denied")
        return real(path, **options)

    monkeypatch.setattr(os, "stat", refused)
    found = snapshot(run, with_texts=True)
    assert [*found.stamps] == ["b"]
    assert found.gap == "some files can't be looked at: Permission denied"


@pytest.mark.parametrize("data", [None, b"\0", b"\xff", b"x" * (workspace_files.MAX_TEXT + 1)])
def test_what_is_no_text(data: bytes | None) -> None:
    """Large files, zero bytes and other encodings are not shown."""
    assert text(data) is None


def test_a_patch_has_context() -> None:
    """Three lines around each change are shown."""
    old = [str(number) for number in range(20)]
    new = [*old[:9], "nine", *old[10:]]
    assert patch("\n".join(old), "\n".join(new)) == [
        "@@ -7,7 +7,7 @@",
        " 6",
        " 7",
        " 8",
        "-9",
        "+nine",
        " 10",
        " 11",
        " 12",
    ]
    assert patch("", "a\n") == ["@@ -0,0 +1 @@", "+a"]
    assert patch("a", "") == ["@@ -1 +0,0 @@", "-a"]
    assert patch("a", "a\n") == patch("", "") == []


@pytest.mark.parametrize("line", ["{0}", "same", "{1}"])
def test_a_patch_takes_bounded_time(line: str) -> None:
    """Texts that differ everywhere are replaced as a whole, and repeated lines are no reason to search for long."""
    start = time.process_time()
    for size in (150, 900, 60_000):
        old = "\n".join(line.format(n, n % 9) for n in range(size))
        new = "\n".join(line.format(n + size, n * 7 % 11) for n in range(size))
        assert len(patch(old, new)) <= 2 * size + 2
    assert time.process_time() - start < 30


def test_no_directory_stays_open(run: Any) -> None:
    """Looking at a deep directory, and reading a file in it, leaves no descriptor open."""
    (run.artifacts / "deep").mkdir(parents=True)
    (run.artifacts / "deep" / "file").write_text("x")
    path = str((run.artifacts / "deep" / "file").relative_to(run.cwd))
    opened = len([*Path("/dev/fd").iterdir()])
    snapshot(run, with_texts=True)
    assert read(run, path, 10) == b"x"
    assert len([*Path("/dev/fd").iterdir()]) == opened
