"""The slots in arguments and variables: for the files that a contract supplies to its engine, and for artifacts."""

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from turngate.contract.engine_contract import EngineContract

SLOT, ARTIFACTS, PYTHON = "{files}", "{artifacts}", "{python}"
# no engine reads anything into these characters: no quotes, wildcards, escapes or variables
PLAIN_PATH = r"/[\w ./@+=,-]+"
_DIRECTORY = rf"(?!.*/\.\./){PLAIN_PATH}/artifacts/[\w-]+"


def digest(files: Mapping[str, str]) -> str:
    """Return the name of the folder of these files."""
    import hashlib  # noqa: PLC0415 - slow to import, and few engines need files

    return hashlib.sha256(json.dumps(sorted(files.items())).encode()).hexdigest()[:32]


def as_in_contract(tokens: tuple[str, ...], contract: EngineContract) -> tuple[str, ...]:
    """Return the arguments of a process with slots in place of the folder of its files, and of that for artifacts."""
    tokens = tuple(option[0] if (option := _artifact_option(token, contract)) else token for token in tokens)
    sticky, guards = contract.sticky, contract.guards.files
    modes = [mode.files for mode in (sticky.interactive, sticky.auto) if mode]
    names = {f"/{digest({**guards, **files})}/" for files in ({}, *modes) if guards or files}
    found = ((token, next((name for name in names if name in token), None)) for token in tokens)
    return tuple(token if name is None else f"{SLOT}/{token.partition(name)[2]}" for token, name in found)


def artifacts_in(tokens: Iterable[str], contract: EngineContract) -> str | None:
    """Return the directory below which the arguments of a process let it write artifacts; None: they don't."""
    wanted = [option for option in contract.artifacts.options if ARTIFACTS in option] if contract.artifacts else []
    found = dict(filter(None, (_artifact_option(token, contract) for token in tokens)))
    directories = {found.get(option) for option in wanted}
    return directories.pop() if len(directories) == 1 else None


def _artifact_option(token: str, contract: EngineContract) -> tuple[str, str] | None:
    """Return the option of the contract that an argument fills in, and its directory; None: it is another argument.

    Only a directory named as turngate names it counts, so that no other one passes for it.
    """
    means = contract.artifacts
    if means is None or "/" not in token:
        return None
    folder = digest({**contract.guards.files, **means.files})
    filled = ((option, _filled(option, folder).fullmatch(token)) for option in means.options if ARTIFACTS in option)
    return next(((option, match["artifacts"]) for option, match in filled if match), None)


@lru_cache(maxsize=64)
def _filled(option: str, folder: str) -> re.Pattern[str]:
    """Return what matches an option with its slots filled, each with the same text everywhere."""
    shapes = {ARTIFACTS: _DIRECTORY, SLOT: f"{PLAIN_PATH}/{folder}", PYTHON: PLAIN_PATH}
    pattern = re.escape(option)
    for slot, shape in shapes.items():
        name = slot.strip("{}")
        pattern = pattern.replace(re.escape(slot), f"(?P<{name}>{shape})", 1).replace(re.escape(slot), f"(?P={name})")
    return re.compile(pattern)
