"""The slot in arguments and variables for the folder of the files that a contract supplies to its engine."""

import json
from collections.abc import Mapping

from turngate.contract.engine_contract import EngineContract

SLOT = "{files}"


def digest(files: Mapping[str, str]) -> str:
    """Return the name of the folder of these files."""
    import hashlib  # noqa: PLC0415 - slow to import, and few engines need files

    return hashlib.sha256(json.dumps(sorted(files.items())).encode()).hexdigest()[:32]


def as_in_contract(tokens: tuple[str, ...], contract: EngineContract) -> tuple[str, ...]:
    """Return the arguments of a process with the slot in place of the folder of its files."""
    sticky, guards = contract.sticky, contract.guards.files
    modes = [mode.files for mode in (sticky.interactive, sticky.auto, sticky.warm) if mode]
    names = {f"/{digest({**guards, **files})}/" for files in ({}, *modes) if guards or files}
    found = ((token, next((name for name in names if name in token), None)) for token in tokens)
    return tuple(token if name is None else f"{SLOT}/{token.partition(name)[2]}" for token, name in found)
