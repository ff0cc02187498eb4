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
from turngate.files import read_regular, real_path
from turngate.model import Mode

MOST_FOLDERS = 100_000
MOST_FILES = 10_000  # with imports; links to folders give a file many paths
_LONGEST = 2**20  # bytes of a file that may have imports
_NOT_SEARCHED = frozenset({".git"})
_QUOTED = re.compile(r"""["']([^"'\n]+)["']""")


def check_instruction_files(contract: EngineContract, workspace: Path, env: Mapping[str, str | None]) -> None:
    """UnsafeTurnError names the first instruction file of the engine, or import of one, that leads out of a workspace.

    Those of the folders above it count too, up to the outermost repository that it is in; they must not lead out of
    their own repository. `env` has the variables that locate the user's settings, which may name more such files.
    UnsafeTurnError, too, if there is too much to look at.
    """
    if not contract.instruction_files:
        return
    root, searched = Path(os.path.realpath(workspace)), set[Path]()
    within = (root, *(each for each in root.parents if os.path.lexists(each / ".git")))
    above = (each for each in root.parents if each.is_relative_to(within[-1]))
    kinds = tuple(_with_names(contract, env))
    for number, folder in enumerate(chain(_folders(root), above)):
        if number == MOST_FOLDERS:
            what = f"the workspace has more than {MOST_FOLDERS} folders, in which instruction files may be links"
            raise UnsafeTurnError(what, _trust(workspace))
        for kind in kinds:
            imports = re.compile(kind.imports) if kind.imports else None
            for path in _every(folder / kind.path):
                if link := _leading_out(path, within, imports, searched):
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


def _leading_out(
    path: Path, within: tuple[Path, ...], imports: re.Pattern[str] | None, searched: set[Path]
) -> Path | None:
    """Return a path, or one that it imports, if it leads out of the first folder of `within` that it is in by name."""
    root, waiting = within[0], [path]
    while waiting:
        path = waiting.pop()
        named = Path(os.path.normpath(path))
        bound = next((each for each in within if named.is_relative_to(each)), None)
        if path in searched or bound is None:  # what is outside by name alone is no link
            continue
        try:
            real = real_path(path)
        except (OSError, ValueError):  # such as a link to itself
            continue
        if not real.is_relative_to(bound):
            return path
        if imports is None or not real.is_file():
            continue
        searched.add(path)
        for found in imports.finditer(_text(real, path, root)):
            # engines look beside the link or beside the file, and some leave `..` to the system
            beside = {each.parent / found["path"] for each in (path, real)}
            waiting += {Path(os.path.normpath(each)) for each in beside} | {real.parent / found["path"]}
        if len(searched) > MOST_FILES:
            raise UnsafeTurnError(f"the workspace has more than {MOST_FILES} instruction files", _trust(root))
    return None


def _text(file: Path, path: Path, root: Path) -> str:
    with file.open("rb") as opened:
        content = opened.read(_LONGEST + 1)
    if len(content) > _LONGEST:
        what = f"{os.path.relpath(path, root)} has more than {_LONGEST} bytes, so it is not known what it imports"
        raise UnsafeTurnError(what, _trust(root))
    return content.decode("utf-8", "replace")


def _trust(root: Path) -> str:
    return f"if you know every file in it, pass --trust-workspace {root}"
