"""Every packaged contract, resolved once for each range of releases with the same claims."""

from collections.abc import Callable, Iterator

from tests.tables import Check, each
from turngate.contract import load
from turngate.contract.engine_contract import EngineContract
from turngate.contract.versions import parse

CODEX_ID = "01a2003b-dfc6-7931-929d-b788434c480d"
GEMINI_ID = "5ad63675-8546-4c6f-8620-a511f048297d"
IFLOW_ID = f"session-{GEMINI_ID}"
OPENCODE_ID = "ses_0123456789abABCDEFGHIJKLMN"
IDS = {"codex": CODEX_ID, "gemini": GEMINI_ID, "iflow": IFLOW_ID, "opencode": OPENCODE_ID}


def session_of(contract: EngineContract) -> str:
    """Return a well-shaped session id of the engine."""
    return IDS.get(contract.engine, contract.handle.nonexistent_id)


def boundaries(engine: str) -> tuple[str, ...]:
    """List, in order, every version at which a claim of the contract begins or ends."""
    ranges = [claim.range for claim in load.contract(engine).document.claims()]
    return tuple(sorted({edge for held in ranges for edge in (held.since, held.until) if edge}, key=parse))


def stretches() -> Iterator[EngineContract]:
    """Resolve each contract before its first boundary, at each boundary, and for the newest release, if covered."""
    for engine in load.engine_names():
        for version in ("0.0.1", *boundaries(engine), None):
            if contract := load.find_contract(engine, version):
                yield contract


RELEASES = tuple(stretches())
NEWEST = {contract.engine: contract for contract in RELEASES if contract.version is None}


def name_of(contract: EngineContract) -> str:
    """Name a range for the test report."""
    return f"{contract.engine}@{contract.version or 'newest'}"


def releases_of(*engines: str, having: Callable[[EngineContract], bool] = lambda _: True) -> Callable[[Check], Check]:
    """Check each range of releases of the engines `having` what the check is about, and report those that fail."""
    return each("contract", [c for c in RELEASES if c.engine in engines and having(c)], shown=name_of)


every_release = releases_of(*load.engine_names())
every_sticky_release = releases_of(*load.engine_names(), having=lambda c: c.sticky.transport != "none")
