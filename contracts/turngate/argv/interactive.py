"""Decides what callers may pass to an engine: in mode interactive, only what the contract lists.

A caller's tokens are first split into options that the contract knows. What is refused is told with what is allowed.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from turngate.argv.auto_flags import accepted_auto_words
from turngate.contract.engine_contract import EngineContract
from turngate.contract.launch import AllowedKey, AllowedValues, Option
from turngate.errors import RefusedError
from turngate.files import real_path
from turngate.model import Mode

# engines expand, split, trim, unquote and normalize paths in different ways, but none changes these characters
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./@+=-]*")
_SPECIAL = re.compile(r"""[][,;:~$%*?{}\\"']""")
_LONGEST = 200


def allowed(contract: EngineContract, mode: Mode, flags: Sequence[str] | None = None) -> tuple[str, ...]:
    """Describe each option that callers may pass in a mode; for a sticky process, only those in `flags`."""
    options = [option for option in contract.options if flags is None or option.flag in flags]
    if mode is Mode.INTERACTIVE:
        return tuple(line for option in options for line in _uses(option))
    listed = tuple(_names(option) + (" VALUE" if option.value != "none" else "") for option in options)
    return (*listed, *(accepted_auto_words(contract) if flags is None else ()))


def allowed_hint(contract: EngineContract, mode: Mode) -> str:
    """Return the allowed options as an error hint."""
    return f"allowed in mode {mode}: {'; '.join(allowed(contract, mode)) or 'no options'}"


def _uses(option: Option) -> Iterator[str]:
    """Describe the allowed uses of an option in mode interactive."""
    use, names = option.interactive, _names(option)
    if use is None:
        return
    if use.keys:
        yield from (f"{names} {entry.key}={_shape(entry)}" for entry in use.keys)
    elif use.path:
        yield f"{names} PATH in the workspace"
    else:
        yield names if option.value == "none" else f"{names} {_shape(use)}"


def _shape(values: AllowedValues) -> str:
    return f"VALUE matching {values.pattern}" if values.pattern else "|".join(values.values)


def _names(option: Option) -> str:
    return ", ".join((option.flag, *option.aliases))


class PlacedOption(Struct, frozen=True):
    """A caller's option with its one or two tokens."""

    option: Option
    tokens: tuple[str, ...]

    @property
    def value(self) -> str:
        """The value; empty if it has none."""
        return self.tokens[1] if len(self.tokens) > 1 else self.tokens[0].partition("=")[2]


def read_options(contract: EngineContract, tokens: Sequence[str], mode: Mode = Mode.AUTO) -> tuple[PlacedOption, ...]:
    """Split the caller's tokens into known options; RefusedError names the first that is unknown or lacks its value.

    Names must be spelled as in the contract, as a separate token or before `=`. The error lists the options that the
    mode allows.
    """
    by_name = {name: option for option in contract.options for name in (option.flag, *option.aliases)}
    read: list[PlacedOption] = []
    queue = list(tokens)
    while queue:
        token = queue.pop(0)
        name, equals, _ = token.partition("=")
        option = by_name.get(name)
        if option is None or not can_be_passed(token):
            unknown = f"{token[:80]!r} is not a known option of {contract.engine}"
            flag, blank, value = token.partition(" ")
            if blank and flag in by_name:
                raise RefusedError(unknown, f"pass two arguments, {flag} and {value[:80]}", token)
            raise RefusedError(unknown, allowed_hint(contract, mode), token)
        if option.value != "many" and any(option is placed.option for placed in read):
            raise RefusedError(f"{option.flag} occurs twice", "pass it once", token)
        if option.value == "none" or equals:
            if option.value == "none" and equals:
                raise RefusedError(f"{name} takes no value", f"pass {name} without a value", token)
            read.append(PlacedOption(option, (token,)))
            continue
        if not queue or queue[0].startswith("-") or not can_be_passed(queue[0]):
            raise RefusedError(f"{name} needs a value", f"pass it as the next token, or as {name}=VALUE", token)
        read.append(PlacedOption(option, (token, queue.pop(0))))
    return tuple(read)


def can_be_passed(token: str) -> bool:
    """Return whether an argument can contain the text: no NUL, and no lone surrogates except those of file names."""
    try:
        return b"\0" not in token.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False


def check_interactive(contract: EngineContract, callers: Sequence[PlacedOption], workspace: Path | None) -> None:
    """Reject the first caller option that is not allowed in mode interactive.

    `workspace` is the directory that paths must stay in (None: unknown, so paths are rejected). RefusedError gives the
    reason and the allowed options.
    """
    paths = [placed.value for placed in callers if placed.option.interactive and placed.option.interactive.path]
    for placed in callers:
        if why := _why_not(placed, paths, workspace):
            reported = " ".join(placed.tokens)
            raise RefusedError(f"{reported[:_LONGEST]!r} {why}", allowed_hint(contract, Mode.INTERACTIVE), reported)


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
