"""A contract without its guards, for runs that show what an engine does where nothing holds it back."""

from itertools import pairwise

from msgspec.structs import replace

from turngate.contract.launch import Guards, Option
from turngate.contract.structs import EngineContract


def unguarded(contract: EngineContract) -> EngineContract:
    """Return the contract with every option of its canaries and redirects declared, and without guards or modes."""
    declared = {name for option in contract.options for name in (option.flag, *option.aliases)}
    more = dict[str, Option]()
    offered = [(*canary.options, *canary.control.options) for canary in contract.canaries]
    for options in (*offered, *(redirect.control.options for redirect in contract.redirects)):
        for token, following in pairwise((*options, "-")):
            if token.startswith("-") and token not in declared:
                more[token] = Option(token, "none" if following.startswith("-") else "many")
    launch = replace(contract.launch, auto=(), interactive=(), interactive_env={})
    return replace(contract, options=(*contract.options, *more.values()), launch=launch, guards=Guards())
