"""Where something stands in the checkout that reports are shown for: file and line, by a path below its root."""

import os
from functools import cache
from pathlib import Path

from turngate.contract import load
from turngate.contract.claims import about
from turngate.contract.load import Document
from turngate.files import contract_files, overlay
from turngate_probes.report.structs import ReleaseReport

FOLDER = "contracts/turngate/engines"

Place = tuple[str, int]


def place_of(release: ReleaseReport, clause_id: str) -> Place | None:
    """Return file and line of the first claim that names the clause as evidence (else line 1).

    None if there is no contract for the engine, since reports are read from files too, or if it is not in the
    checkout.
    """
    file = contract_files().get(release.engine)
    if file is None:
        return None
    own = overlay()
    # a packaged contract is that of the checkout, if that is one of ours
    shown = file if own and own in file.parents else _root() / FOLDER / file.name
    named = below(shown)
    return (named, min(_lines(file, clause_id, release.version), default=1)) if named else None


def below(file: Path | str) -> str | None:
    """Name a file relative to the root of the checkout; None if it is not there, or lies elsewhere."""
    root = _root()
    try:
        path = Path(file).resolve()
        return path.relative_to(root).as_posix() if path.is_file() and root in path.parents else None
    except (OSError, RuntimeError, ValueError):  # a name out of a report may be none at all, or lead in a circle
        return None


def _root() -> Path:
    return Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd()).resolve()


@cache
def _lines(file: Path, clause_id: str, version: str | None) -> tuple[int, ...]:
    document = _document(file)
    return tuple(document.marks[path][0] for path in about(document, clause_id, version))


@cache
def _document(file: Path) -> Document:
    return load.parse(file.read_text("utf-8"), file.name, ours=True)
