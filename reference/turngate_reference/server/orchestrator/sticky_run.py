"""A run whose process is kept while the user thinks."""

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from turngate.model import EngineSessionHandle, Interaction
from turngate_reference.engine.lookup import InstalledEngine
from turngate_reference.server.sticky.events import Lost
from turngate_reference.server.store.rows import Run

REFUSED = Interaction("open_text", "The engine ended its turn after an action was refused. What should it do instead?")


@dataclass(slots=True)
class StickyRun:
    """A run with a process: `claimed` as it got its slot, `run` as of its turn.

    `turn_began` is in seconds of the clock. A deadline that was set under another value of `clock_count` is void.
    `lost` None: the process is there, or was ended by turngate.
    """

    claimed: Run
    engine: InstalledEngine
    prompt: str
    texts: Callable[[str], None]
    turn_began: float = 0.0
    clock_count: int = 0
    process: dict[str, Any] = field(default_factory=dict)
    lost: Lost | None = None
    run: Run = field(init=False)

    def __post_init__(self) -> None:
        """Begin with the run as it was claimed."""
        self.run = self.claimed


def session_record(kept: StickyRun, session_id: str | None) -> dict[str, Any] | None:
    """Return the session's handle, if a headless resume would take the transport's id too."""
    contract = kept.engine.contract
    known = kept.run.session is not None or session_id is None or not contract.sticky.same_id
    if known or not re.fullmatch(contract.handle.shape, session_id or ""):
        return None
    return asdict(EngineSessionHandle(contract.engine, contract.handle.handle_type, session_id or "", 1))
