"""The only module that decides what callers may pass in mode interactive: only what the contract lists."""

import re
from collections.abc import Sequence
from pathlib import Path

from turngate.argv.allowed import allowed_hint
from turngate.argv.options import PlacedOption
from turngate.contract.allowed import AllowedKey
from turngate.contract.structs import EngineContract
from turngate.errors import RefusedError
from turngate.files import real_path
from turngate.model import Mode

# engines expand, split, trim, unquote and normalize paths in different ways, but none changes these characters
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./@+=-]*")
_SPECIAL = re.compile(r"""[][,;:~$%*?{}\\"']""")
_LONGEST = 200


def check_interactive(contract: EngineContract, callers: Sequence[PlacedOption], workspace: Path | None) -> None:
    """Reject the first caller option that is not allowed in mode interactive.

    `workspace` is the directory that paths must stay in (None: unknown, so paths are rejected). RefusedError gives the
    reason and the allowed options.
    """
    paths = [placed.value for placed in callers if placed.option.interactive and placed.option.interactive.path]
    for placed in callers:
        if why := _why_not(placed, paths, workspace):
            told = " ".join(placed.tokens)
            raise RefusedError(f"{told[:_LONGEST]!r} {why}", allowed_hint(contract, Mode.INTERACTIVE), told)


def _why_not(placed: PlacedOption, paths: Sequence[str], workspace: Path | None) -> str | None:
    """Return why an option is rejected; None: it is allowed. `paths` lists the values of all path options."""
    use, value = placed.option.interactive, placed.value
    if use is None:
        return "is not allowed in mode interactive"
    if not all(map(str.isprintable, placed.tokens)):
        return "contains a character that can't be printed"
    if use.keys:
        return _why_not_set(use.keys, value)
    if use.path:
        return _why_outside(value, paths, workspace)
    return None if placed.option.value == "none" or use.allow(value) else "has a value that is not allowed"


def _why_not_set(keys: Sequence[AllowedKey], override: str) -> str | None:
    """Return why `key=value` is rejected. Keys must be spelled as in the contract, since engines read TOML."""
    name, _, value = override.partition("=")
    key = next((key for key in keys if key.key == name), None)
    if key is None:
        return "sets a key that is not allowed in mode interactive"
    quoted = re.fullmatch(r"""(["'])(.*)\1""", value)
    return None if key.allow(quoted[2] if quoted else value) else f"gives {name} a value that is not allowed"


def _below(workspace: Path, path: str) -> str:
    """Return the part of a path below the workspace, whose own path may hold spaces and letters of any script."""
    if _SPECIAL.search(str(workspace)) or not f"{path}/".startswith(f"{workspace}/"):
        return path
    return f"{path}/".removeprefix(f"{workspace}/") or "."


def _why_outside(path: str, paths: Sequence[str], workspace: Path | None) -> str | None:
    """Return why a path may lead out of the workspace; an engine may resolve it relative to another of the `paths`."""
    if workspace is None:
        return "names a path, but the workspace that it must stay in is unknown"
    if not _PLAIN_PATH.fullmatch(_below(workspace, path)) or ".." in path.split("/"):
        return "names a path that is not plain: use only ASCII letters, digits and ./@+=-_, without `..`"
    try:
        root = real_path(workspace)
        if all(real_path(base / path).is_relative_to(root) for base in (root, *(root / other for other in paths))):
            return None
    except OSError:  # such as a link to itself
        return "names a path that can't be resolved"
    return "points outside the workspace"
