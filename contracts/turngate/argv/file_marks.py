"""Finds the marks in a prompt by which an engine itself reads a file and sends its content to the model.

A prompt may come from a stranger, such as a caller of a server. In mode interactive, a mark that leads out of the
workspace is refused, unless the caller allows it: nobody asked the user, and the model is not on this machine.
"""

import re
from pathlib import Path

from turngate.contract.engine_contract import EngineContract
from turngate.errors import RefusedError
from turngate.files import real_path

_SHOWN = 100


def check_file_marks(contract: EngineContract, prompt: str, workspace: Path | None) -> None:
    """Refuse a prompt with a mark that makes the engine read a file outside `workspace` (None: unknown).

    RefusedError shows the mark, and says what to write instead.
    """
    for mark in contract.file_marks:
        for found in re.finditer(mark.pattern, prompt):
            if _leads_out(found["path"], workspace):
                what = f"{contract.engine} would read the file of {found[0].strip()[:_SHOWN]!r} by itself"
                hint = "name the file without the mark, or allow file marks if the prompt comes from you"
                raise RefusedError(what, f"it is outside the workspace; {hint}")


def _leads_out(path: str, workspace: Path | None) -> bool:
    """Return whether a path may lead out of the workspace, in any way in which engines unquote it."""
    for spelled in {path, path.replace("\\", ""), path.strip("\"'`{}<>"), path.removeprefix("file://")}:
        if spelled.startswith("~") or "$" in spelled:
            return True
        if workspace is None:
            if spelled.startswith("/") or ".." in re.split(r"[/\\]", spelled):
                return True
        elif not _is_below(workspace / spelled, workspace):
            return True
    return False


def _is_below(path: Path, workspace: Path) -> bool:
    try:
        return real_path(path).is_relative_to(real_path(workspace))
    except (OSError, ValueError):  # such as a link to itself, or a NUL character
        return False
