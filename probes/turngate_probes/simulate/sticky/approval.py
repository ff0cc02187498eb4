"""What a simulated sticky process does before it acts, as the contract says."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from turngate.argv.file_slot import SLOT
from turngate.contract.launch import PermissionMode, Sticky

Approval = Literal["ask", "act", "refuse"]


def approval(
    sticky: Sticky,
    options: Sequence[str],
    env: Mapping[str, str],
    mode: str | None,
    fields: Mapping[str, Any],
    asking_env: Collection[str] | None = None,
) -> Approval:
    """Return what it does before it acts: it asks if the contract's conditions for mode interactive hold.

    Of its variables, only those in `asking_env` count if that is given. Without the options that name who approves,
    which are those of mode auto, it refuses.
    """
    interactive, auto = sticky.interactive, sticky.auto
    if interactive is None:
        return "act"
    if auto and not contains(options, auto.options):
        return "refuse"
    named = (*options, *env.values())
    if not all(any(word.endswith(f"/{name}") for word in named) for name in interactive.files):
        return "act"
    needed = {name: value for name, value in interactive.env.items() if asking_env is None or name in asking_env}
    by_env = all(_holds(env.get(name, ""), value) for name, value in needed.items())
    asks = in_force(sticky, fields) is not sticky.auto
    return "ask" if by_env and mode == interactive.mode and asks else "act"


def in_force(sticky: Sticky, fields: Mapping[str, Any]) -> PermissionMode:
    """Return the permission mode in force: the one whose fields opened the session, else that of mode interactive."""
    for mode in (sticky.auto, sticky.warm):
        if mode and mode.session and mode.session.items() <= fields.items():
            return mode
    return sticky.interactive or PermissionMode()


def _holds(value: str, wanted: str) -> bool:
    """Whether a variable has the value that the contract wants, in whatever folder its files are."""
    before, slot, after = wanted.partition(SLOT)
    return value == wanted or bool(slot and value.startswith(before) and value.endswith(after))


def contains(words: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether the words contain others one after the other."""
    width = len(wanted)
    return any(tuple(words[at : at + width]) == tuple(wanted) for at in range(len(words) - width + 1))
