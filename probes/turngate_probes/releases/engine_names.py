"""The names by which version managers and distributions know an engine."""

from turngate import EngineContract


def tool_names(contract: EngineContract) -> frozenset[str]:
    """Return the names of an engine as a tool.

    The last part of a package's name is one if it names the engine: `gemini-cli`, but not `cli`.
    """
    own = {contract.engine, contract.executable}
    last = (name.rpartition("/")[2] for name in contract.packages)
    return frozenset(own.union(name for name in last if any(word in name for word in own)))
