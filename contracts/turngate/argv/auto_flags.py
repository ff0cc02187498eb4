"""The only module that decides whether options let an engine act without asking.

Recognizes every spelling that any common parser accepts, regardless of the engine's own parser. A false match costs an
error message. A missed match costs the user's consent.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache

from msgspec import Struct

from turngate.contract.engine_contract import EngineContract
from turngate.contract.launch import AutoFlag, AutoKey, Option

# what callers of many engines write for mode auto
AUTO_WORDS = ("--yolo", "--full-auto")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Flags(Struct, frozen=True):
    """The part of a contract that describes flags."""

    auto_flags: tuple[AutoFlag, ...]
    options: tuple[Option, ...]


def auto_flags_in(tokens: Sequence[str], contract: EngineContract | Flags) -> tuple[str, ...]:
    """List the tokens (with their values) that widen approval or sandbox; `tokens` must not contain prompts."""
    occurrences = tuple(_occurrences(tokens, contract))
    pinned = {name for _, flag, value in occurrences if (name := _pinned(flag, value))}
    found = []
    for token, flag, value in occurrences:
        if _auto_approves(flag, value, pinned):
            apart = value is not None and value not in token and (flag.keys or flag.safe_values is not None)
            found.append(f"{token} {value}" if apart else token)
    return tuple(dict.fromkeys(found))


def accepted_auto_words(contract: EngineContract) -> tuple[str, ...]:
    """Return those of `AUTO_WORDS` that mode auto accepts and replaces: the release has them."""
    names = {name for flag in contract.auto_flags for name in (flag.flag, *flag.aliases)}
    return tuple(word for word in AUTO_WORDS if contract.launch.auto and word in names)


def _occurrences(tokens: Sequence[str], contract: EngineContract | Flags) -> Iterator[tuple[str, AutoFlag, str | None]]:
    """Return each token that is or has one of the flags, with its value."""
    for i, token in enumerate(tokens):
        if token.startswith("-"):
            following = tokens[i + 1] if i + 1 < len(tokens) else None
            for flag in contract.auto_flags:
                for value in _values_of(flag, token, following, contract):
                    yield token, flag, value


def _values_of(
    flag: AutoFlag, token: str, following: str | None, contract: EngineContract | Flags
) -> Iterator[str | None]:
    """Return the value (None: no value) of each occurrence of the flag in one token, which starts with a dash."""
    names = {_plain(name) for name in (flag.flag, *flag.aliases)}
    name, equals, value = token.partition("=")
    if _plain(name) in names:
        yield value if equals else following
    elif not token.startswith("--"):
        yield from _clustered(token[1:], names, following, contract)


def _clustered(
    letters: str, names: set[str], following: str | None, contract: EngineContract | Flags
) -> Iterator[str | None]:
    """Read `-dy` and `-sVALUE`: a letter that takes a value ends the cluster."""
    takes_value = {
        name[1]
        for o in contract.options
        if o.value != "none"
        for name in (o.flag, *o.aliases)
        if not name.startswith("--")
    }
    for i, letter in enumerate(letters):
        rest = letters[i + 1 :].removeprefix("=")
        if f"-{letter}" in names:
            yield rest or following
        if letter in takes_value or letter == "=":
            return


@lru_cache(maxsize=1024)
def _plain(name: str) -> str:
    """Normalize `--approvalMode` and `--approval_mode` to `--approval-mode`, and `--y` to `-y`."""
    if not name.startswith("--"):
        return name
    if len(name) == len("--y"):
        return name[1:]
    return _HUMP.sub("-", name).replace("_", "-").lower()


def _pinned(flag: AutoFlag, value: str | None) -> str | None:
    """Return the flag, or the key of an override, that is set to a safe value; None: it isn't."""
    if not flag.keys:
        return flag.flag if value in (flag.safe_values or ()) else None
    name, _, set_to = (value or "").partition("=")
    safe = (key.key for key in flag.keys if key.key == _bare(name) and _bare(set_to) in key.safe_values)
    return next(safe, None)


def _auto_approves(flag: AutoFlag, value: str | None, pinned: Collection[str]) -> bool:
    if flag.keys:
        name = (value or "").partition("=")[0].strip()
        keys = [key for key in flag.keys if key.key == name] or flag.keys
        return value is not None and any(_key_auto_approves(key, value, pinned) for key in keys)
    return flag.safe_values is None or not _is_safe(flag, value, pinned)


def _is_safe(option: AutoFlag | AutoKey, value: str | None, pinned: Collection[str]) -> bool:
    """Return whether a value widens nothing, perhaps because of what else is pinned."""
    names = option.safe_beside.get(value, ()) if value is not None else ()
    return value in (option.safe_values or ()) or any(name in pinned for name in names)


def _bare(value: str) -> str:
    return value.strip().strip("\"'")


def _key_auto_approves(key: AutoKey, override: str, pinned: Collection[str]) -> bool:
    """Return whether `key=value` widens; a key anywhere else in the override (an inline table) also counts."""
    name, _, value = override.partition("=")
    if name.strip().rpartition(".")[2].strip("\"' ") == key.key or name.strip() == key.key:
        return not _is_safe(key, _bare(value), pinned)
    return re.search(rf"\b{re.escape(key.key)}\b", override) is not None
