"""Refuses a workspace in which a link makes an engine send a file from outside to the model, as its instructions.

`git clone` delivers links. A link that stays in the workspace is fine. A hard link can't be told from a file of the
workspace, but no repository delivers one.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from turngate.contract.engine_contract import EngineContract
from turngate.errors import RefusedError
from turngate.files import real_path

MOST_FOLDERS = 100_000
_LONGEST = 2**20  # bytes of a file that are searched for imports
_NOT_SEARCHED = frozenset({".git"})


def check_instruction_files(contract: EngineContract, workspace: Path) -> None:
    """RefusedError names the first instruction file of the engine, or import of one, that leads out of the workspace.

    It does so, too, if there are too many folders to look at.
    """
    if not contract.instruction_files:
        return
    root, known = Path(os.path.realpath(workspace)), set[Path]()
    for number, folder in enumerate(_folders(root)):
        if number == MOST_FOLDERS:
            what = f"the workspace has more than {MOST_FOLDERS} folders, in which instruction files may be links"
            raise RefusedError(what, f"if you know every file in it, pass --trust-workspace {workspace}")
        for kind in contract.instruction_files:
            imports = re.compile(kind.imports) if kind.imports else None
            for path in _every(folder / kind.path):
                _check(path, root, imports, known, contract.engine)


def _folders(root: Path) -> Iterator[Path]:
    for folder, names, _ in os.walk(root):
        names[:] = sorted({*names} - _NOT_SEARCHED)
        yield Path(folder)


def _every(path: Path) -> Iterator[Path]:
    """Yield a path if it is there, and if it is a folder, all that is in it; links aren't followed."""
    if os.path.lexists(path):
        yield path
    if path.is_dir() and not path.is_symlink():
        for folder, names, files in os.walk(path):
            yield from (Path(folder, name) for name in (*names, *files))


def _check(path: Path, root: Path, imports: re.Pattern[str] | None, known: set[Path], engine: str) -> None:
    """Check a path and what it imports; what is outside by its name alone is no link."""
    if path in known or not Path(os.path.normpath(path)).is_relative_to(root):
        return
    known.add(path)
    try:
        real = real_path(path)
    except (OSError, ValueError):  # such as a link to itself
        return
    if not real.is_relative_to(root):
        what = f"{path.relative_to(root)} leads out of the workspace, and {engine} would send it to the model"
        hint = f"replace the link by a file, or pass --trust-workspace {root} if you know where it leads"
        raise RefusedError(what, hint)
    if imports is None or not real.is_file():
        return
    with real.open("rb") as file:
        text = file.read(_LONGEST).decode("utf-8", "replace")
    for found in imports.finditer(text):
        _check(real.parent / found["path"], root, imports, known, engine)
