"""Offers an engine harmless programs in every way that its contract names, and tells which of them it started."""

from pathlib import Path

from turngate import EngineContract, RefusedError
from turngate.argv.auto_flags import auto_flags_in
from turngate.argv.build import unguarded
from turngate.argv.interactive import check_interactive, read_options
from turngate_probes.harness.sandbox import Sandbox


def offer(contract: EngineContract, box: Sandbox) -> tuple[str, ...]:
    """Put the program and the files of all canaries in place; return the options that mode interactive accepts.

    A canary's options are dropped together if one of them is refused, as they are when a caller passes them.
    """
    box.offer_programs()
    accepted: tuple[str, ...] = ()
    for canary in contract.canaries:
        box.place(canary.files)
        options = tuple(map(box.fill, canary.options))
        if _is_accepted(contract, options, box.work):
            accepted += options
    return accepted


def unguard(contract: EngineContract, box: Sandbox) -> tuple[EngineContract, tuple[str, ...]]:
    """Write what the control run needs; return the contract for it, and the options of all canaries."""
    options = dict[tuple[str, ...], None]()
    for canary in contract.canaries:
        box.place(canary.control.files)
        options |= dict.fromkeys((canary.options, *_single(canary.control.options)))
    return unguarded(contract), tuple(box.fill(token) for group in options for token in group)


def _is_accepted(contract: EngineContract, options: tuple[str, ...], workspace: Path) -> bool:
    try:
        check_interactive(contract, read_options(contract, options), workspace)
    except RefusedError:
        return False
    return not auto_flags_in(options, contract)


def _single(options: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Cut options into those that can be passed once for several canaries: a flag with its value."""
    groups: list[tuple[str, ...]] = []
    for token in options:
        if token.startswith("-"):
            groups.append((token,))
        else:
            groups[-1] += (token,)
    return groups
