"""Puts the files that a contract supplies to its engine where no workspace can reach them.

Each set of files has a private folder in the cache, named by the content of the set. What is there is compared with the
contract before each use, because an engine that acts without asking runs as the user, and could have changed it.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from turngate.contract.launch import Guards
from turngate.contract.structs import EngineContract
from turngate.errors import EnvironmentFailed
from turngate.files import default_cache, make_private, read_own, write_atomically

SLOT = "{files}"


def supplied_folder(files: Mapping[str, str]) -> Path:
    """Return the folder with these files, written first if they are missing or differ.

    EnvironmentFailed: they can't be written.
    """
    try:
        folder = default_cache() / "supplied" / digest(files)
        make_private(folder)
        for name, content in files.items():
            if not _holds(folder / name, content):
                write_atomically(folder / name, content, private=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home
        why = f"the files that guard the engine can't be written: {error}"
        raise EnvironmentFailed(why, "free some disk space, or set XDG_CACHE_HOME to a folder of your own") from error
    return folder


def guarded(env: Mapping[str, str], guards: Guards) -> dict[str, str]:
    """Return an environment with the variables that guard an engine, and {files} in them.

    The environment's own values have precedence, except over those that name supplied files: without them, nothing
    would say that the engine runs unguarded.
    """
    return {**guards.env, **env, **{name: value for name, value in guards.env.items() if SLOT in value}}


def digest(files: Mapping[str, str]) -> str:
    """Return the name of the folder of these files."""
    import hashlib  # noqa: PLC0415 - slow to import, and few engines need files

    return hashlib.sha256(json.dumps(sorted(files.items())).encode()).hexdigest()[:32]


def as_in_contract(tokens: tuple[str, ...], contract: EngineContract) -> tuple[str, ...]:
    """Return the arguments of a process with the slot in place of the folder of its files."""
    sticky, guards = contract.sticky, contract.guards.files
    modes = [mode.files for mode in (sticky.interactive, sticky.auto, sticky.warm) if mode]
    names = {f"/{digest({**guards, **files})}/" for files in ({}, *modes)}
    found = ((token, next((name for name in names if name in token), None)) for token in tokens)
    return tuple(token if name is None else f"{SLOT}/{token.partition(name)[2]}" for token, name in found)


def _holds(path: Path, content: str) -> bool:
    wanted = content.encode()
    with suppress(OSError, ValueError):
        return read_own(path, len(wanted) + 1) == wanted
    return False
