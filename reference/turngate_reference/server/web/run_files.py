"""Gives out the files that a run changed: for download, and as texts and patches."""

from pathlib import PurePosixPath
from urllib.parse import quote

from flask import Response
from msgspec import Struct

from turngate_reference.server.orchestrator import workspace_files
from turngate_reference.server.orchestrator.workspace_files import MAX_DOWNLOAD, MAX_TEXT
from turngate_reference.server.requests import ApiError
from turngate_reference.server.store import files
from turngate_reference.server.store.database import Store
from turngate_reference.server.store.files import ChangedFile
from turngate_reference.server.store.runs import Run

# whatever it holds, a browser neither shows nor runs it
_HEADERS = {"Content-Security-Policy": "default-src 'none'; sandbox", "Cross-Origin-Resource-Policy": "same-origin"}


class FileView(Struct, frozen=True):
    """A file that a run changed: its texts before and now (None: unknown, or no text), and the lines of its patch."""

    file: ChangedFile
    before: str | None
    text: str | None
    patch: list[str]


def download(store: Store, run: Run, path: str) -> Response:
    """Return the content of a file as an attachment; ApiError if the run changed no such file, or it is too large."""
    _changed(store, run, path)
    try:
        data = workspace_files.read(run, path, MAX_DOWNLOAD + 1)
    except OSError as error:
        raise _missing(path) from error
    if len(data) > MAX_DOWNLOAD:
        raise ApiError(
            "FILE_TOO_LARGE", f"{path[:200]!r} is larger than {MAX_DOWNLOAD} bytes", "open it on the machine"
        )
    is_text = workspace_files.text(data) is not None
    media = "text/plain; charset=utf-8" if is_text else "application/octet-stream"
    name = quote(PurePosixPath(path).name, safe="")
    headers = {**_HEADERS, "Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
    return Response(data, headers=headers, content_type=media)


def view(store: Store, run: Run, path: str) -> FileView:
    """Read a file that a run changed for display; ApiError if the run changed no such file."""
    file, earlier = _changed(store, run, path)
    before, now = workspace_files.text(earlier), None
    if file.change == "added":
        before = ""
    try:
        now = workspace_files.text(workspace_files.read(run, path, MAX_TEXT + 1))
    except OSError:
        now = "" if file.change == "deleted" else None
    lines = [] if before is None or now is None else workspace_files.patch(before, now)
    return FileView(file, before, now, lines)


def patch(store: Store, run: Run, path: str) -> FileView:
    """Read a text file with its patch; ApiError if there is none."""
    file = view(store, run, path)
    if file.before is None or file.text is None:
        raise ApiError("FILE_NOT_TEXT", f"{path[:200]!r} has no patch", "download it")
    return file


def _changed(store: Store, run: Run, path: str) -> tuple[ChangedFile, bytes | None]:
    found = files.find(store, run.run_id, path)
    if found is None:
        raise _missing(path)
    return found


def _missing(path: str) -> ApiError:
    return ApiError("FILE_NOT_FOUND", f"the run has no changed file {path[:200]!r}", "list its files: GET …/files")
