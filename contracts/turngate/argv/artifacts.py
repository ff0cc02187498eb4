"""Where a turn in mode interactive may write: below one directory of its workspace, if its engine has a means for that.

The path of the directory goes into options that the engine reads as a command, a configuration or a rule. So it is
accepted only if it is plain and has no link in it.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from turngate.argv.file_slot import PLAIN_PATH
from turngate.argv.interactive import read_options
from turngate.contract.engine_contract import EngineContract
from turngate.errors import RefusedError
from turngate.files import real_path


def no_artifacts(contract: EngineContract, options: Sequence[str] = ()) -> str:
    """Return why turns in mode interactive with a caller's options write no artifacts; empty if they can."""
    means = contract.artifacts
    if means is None:
        release = f"{contract.engine} {contract.version or ''}".strip()
        return f"{release} has no means that allows this alone, whatever the user's settings are"
    callers = read_options(contract, options)
    names = (name for placed in callers for name in (placed.option.flag, placed.value.partition("=")[0].strip()))
    found = next((name for name in names if name in means.yields_to), None)
    return f"the option {found} rules it out" if found else ""


def check_artifacts(
    contract: EngineContract, directory: Path, workspace: Path | None, options: Sequence[str] = ()
) -> None:
    """Refuse a turn in mode interactive that would be allowed to write below a directory, which must exist.

    RefusedError: the engine has no means for it, or the directory isn't one of its own inside the workspace.
    """
    if why := no_artifacts(contract, options) or unusable(directory, workspace):
        raise RefusedError(f"the turn can't write artifacts: {why}", "run it without them")


def unusable(directory: Path, workspace: Path | None) -> str:
    """Return why nothing may be written below a directory; empty if it is one inside the workspace, without links."""
    if workspace is None:
        return "its workspace is unknown"
    try:
        root, real = real_path(workspace), real_path(directory)
    except OSError as error:
        return f"{directory}: {error.strerror}"
    if real != directory:
        return f"{directory} is a link, or leads through one"
    if root not in real.parents:
        return f"{directory} is not inside the workspace"
    if not real.is_dir():
        return f"{directory} is not a directory"
    return ambiguous(real)


def ambiguous(path: Path) -> str:
    """Return why an engine may take a path for another one; empty if every engine takes it as it is."""
    if re.fullmatch(PLAIN_PATH, str(path)):
        return ""
    return f"the path {str(path)!r} has characters that an engine may read as something else"
