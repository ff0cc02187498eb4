"""What a browser gets of a file that a run changed."""

import pytest

from turngate_reference.server.orchestrator import workspace_files
from turngate_reference.server.requests import ApiError
from turngate_reference.server.store import files
from turngate_reference.server.store.files import ChangedFile
from turngate_reference.server.web import run_files


@pytest.fixture(name="content")
def _content(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The content of the one changed file, which a test may set."""
    content = [b"<script>alert(1)</script>"]
    changed = ChangedFile("page.html", "modified", 1, 25, has_before=True)
    monkeypatch.setattr(files, "find", lambda _store, _run, path: (changed, b"old") if path == "page.html" else None)
    monkeypatch.setattr(workspace_files, "read", lambda _run, _path, most: content[0][:most])
    return content


def downloaded(path: str = "page.html") -> dict[str, str]:
    """Return the headers of a download."""
    return dict(run_files.download(None, ANY_RUN, path).headers)  # type: ignore[arg-type]


class AnyRun:
    """A run that has an id."""

    run_id = "20261124T000000Z-codex-abcdefgh"


ANY_RUN = AnyRun()


def test_a_page_is_a_text_that_no_browser_shows(content: list[bytes]) -> None:
    """A file is an attachment of plain text or of bytes, in a sandbox."""
    headers = downloaded()
    assert headers["Content-Disposition"] == "attachment; filename*=UTF-8''page.html"
    assert headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    content[0] = b"\0"
    assert downloaded()["Content-Type"] == "application/octet-stream"


def test_what_can_not_be_shown_says_why(content: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that the run didn't change, one that is too large and one that is no text have codes of their own."""
    content[0] = b"\0\0\0"
    with pytest.raises(ApiError) as refused:
        run_files.patch(None, ANY_RUN, "page.html")  # type: ignore[arg-type]
    assert refused.value.code == "FILE_NOT_TEXT"
    monkeypatch.setattr(run_files, "MAX_DOWNLOAD", 2)
    for path, code in (("page.html", "FILE_TOO_LARGE"), ("../record", "FILE_NOT_FOUND")):
        with pytest.raises(ApiError) as refused:
            downloaded(path)
        assert refused.value.code == code
