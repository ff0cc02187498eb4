"""Refuses a workspace in which a link makes an engine send a file from outside to the model, as its instructions.

`git clone` delivers links. A link that stays in the workspace is fine. A hard link can't be told from a file of the
workspace, but no repository delivers one.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path

from msgspec.structs import replace

from turngate.contract.engine_contract import EngineContract
from turngate.contract.home_and_workspace import InstructionFile
from turngate.contract.session_ids import filled, slots
from turngate.errors import UnsafeTurnError
from turngate.files import read_regular, real_path, repository_of
from turngate.model import Mode

MOST_FOLDERS = 100_000
_LONGEST = 2**20  # bytes of a file that are searched for imports
_NOT_SEARCHED = frozenset({".git"})
_QUOTED = re.compile(r"""["']([^"'\n]+)["']""")


def check_instruction_files(contract: EngineContract, workspace: Path, env: Mapping[str, str | None]) -> None:
    """UnsafeTurnError names the first instruction file of the engine, or import of one, that leads out of a workspace.

    Those of the folders above it count too, up to the repository that it is in, out of which they must not lead. `env`
    has the variables that locate the user's settings, which may name more such files. UnsafeTurnError, too, if there
    are too many folders to look at.
    """
    if not contract.instruction_files:
        return
    root, known = Path(os.path.realpath(workspace)), set[Path]()
    kinds, above = tuple(_with_names(contract, env)), _above(root)
    below = ((folder, root) for folder in _folders(root))
    for number, (folder, within) in enumerate(chain(below, ((folder, above[-1]) for folder in above))):
        if number == MOST_FOLDERS:
            what = f"the workspace has more than {MOST_FOLDERS} folders, in which instruction files may be links"
            raise UnsafeTurnError(what, f"if you know every file in it, pass --trust-workspace {workspace}")
        for kind in kinds:
            imports = re.compile(kind.imports) if kind.imports else None
            for path in _every(folder / kind.path):
                if link := _leading_out(path, within, imports, known):
                    name = os.path.relpath(link, root)
                    what = f"{name} leads out of the workspace, and {contract.engine} would send it to the model"
                    hint = f"replace the link by a file, or pass --trust-workspace {root} if you know where it leads"
                    raise UnsafeTurnError(what, hint)


def _with_names(contract: EngineContract, env: Mapping[str, str | None]) -> Iterator[InstructionFile]:
    """Yield the instruction files of a contract that a turn may send, with the paths that the user's settings name."""
    values = slots(contract.store.locations if contract.store else {}, env)
    for kind in contract.instruction_files:
        if all(mode in kind.left_out for mode in Mode):
            continue
        if kind.named_in is None:
            yield kind
            continue
        with suppress(KeyError, OSError):  # what turngate can't read, an engine of the same user can't read either
            text = read_regular(Path(filled(kind.named_in.file, values))).decode("utf-8", "replace")
            for found in re.finditer(kind.named_in.pattern, text):
                yield from (replace(kind, path=name) for name in _QUOTED.findall(found["names"]))


def _above(root: Path) -> tuple[Path, ...]:
    """Return the folders above one in a repository, the repository's own last; none outside of a repository."""
    top, folders = repository_of(root), (root, *root.parents)
    return folders[1 : folders.index(top) + 1] if top else ()


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


def _leading_out(path: Path, root: Path, imports: re.Pattern[str] | None, known: set[Path]) -> Path | None:
    """Return a path, or one that it imports, if it leads out of `root`; what is outside by name alone is no link."""
    if path in known or not Path(os.path.normpath(path)).is_relative_to(root):
        return None
    known.add(path)
    try:
        real = real_path(path)
    except (OSError, ValueError):  # such as a link to itself
        return None
    if not real.is_relative_to(root):
        return path
    if imports is None or not real.is_file():
        return None
    with real.open("rb") as file:
        text = file.read(_LONGEST).decode("utf-8", "replace")
    found = (_leading_out(real.parent / match["path"], root, imports, known) for match in imports.finditer(text))
    return next(filter(None, found), None)
