"""The files that a contract supplies to its engine, put where no workspace can reach them.

Each set has a private folder in the cache, named by its content. What is there is compared with the contract before
each use, because an engine that acts without asking runs as the user, and could have changed it.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from turngate.argv.environment import with_absolute_path
from turngate.argv.file_slot import SLOT, digest
from turngate.contract.launch import Guards
from turngate.errors import MachineError
from turngate.files import default_cache, make_private, read_own, write_atomically


def supplied_folder(files: Mapping[str, str]) -> Path:
    """Return the folder with these files, written first if they are missing or differ.

    MachineError: they can't be written.
    """
    try:
        folder = supplied_root() / digest(files)
        make_private(folder)
        for name, content in files.items():
            if not _holds(folder / name, content):
                write_atomically(folder / name, content, private=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home
        why = f"the files that guard the engine can't be written: {error}"
        raise MachineError(why, "free some disk space, or set XDG_CACHE_HOME to a folder of your own") from error
    return folder


def supplied_root() -> Path:
    """Return the folder of all supplied folders; RuntimeError: there is no home."""
    return default_cache() / "supplied"


def guarded(env: Mapping[str, str], guards: Guards) -> dict[str, str]:
    """Return an environment with the variables that guard an engine, {files} in them, and a PATH of absolute folders.

    The environment's own values have precedence, except over those that name supplied files: without them, nothing
    would say that the engine runs without its guards.
    """
    by_files = {name: value for name, value in guards.env.items() if SLOT in value}
    return {**guards.env, **with_absolute_path(env), **by_files}


def guarded_environment(env: Mapping[str, str], guards: Guards) -> dict[str, str]:
    """Return `guarded` with the folder of the supplied files in place of {files}; MachineError: it can't be written."""
    folder = str(supplied_folder(guards.files)) if guards.files else SLOT
    return {name: value.replace(SLOT, folder) for name, value in guarded(env, guards).items()}


def _holds(path: Path, content: str) -> bool:
    wanted = content.encode()
    with suppress(OSError, ValueError):
        return read_own(path, len(wanted) + 1) == wanted
    return False
