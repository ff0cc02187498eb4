"""A run with a sticky process, and what the server keeps about it while the process exists."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from msgspec import structs

from turngate import EngineContract
from turngate.contract.session_ids import unsafe
from turngate_reference.server.orchestrator.sessions import stored_session
from turngate_reference.server.sticky import events
from turngate_reference.server.store.outbox import Outbox
from turngate_reference.server.store.rows import ProcessNote, Run


@dataclass(slots=True)
class StickyRun:
    """A run with a process: `run` is its state at the start of the turn, `turn_began` the clock's time then.

    `process` is the note of its process, and `is_gone` says that it has ended. `judge` decides how its turns end, and
    passes its events on in order. `lost` is None if the process is alive or was
    ended by turngate.
    """

    run: Run
    contract: EngineContract
    outbox: Outbox
    on_text: Callable[[str], None]
    turn_began: float
    process: ProcessNote
    is_gone: bool = False
    lost: events.Lost | None = None
    judge: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "turngate-judge"))

    def note(self, **fields: Any) -> None:
        """Change fields of the note of the process."""
        self.process = structs.replace(self.process, **fields)

    def session(self) -> dict[str, Any] | None:
        """Return the session id of the process if it is new and a headless resume would accept it too."""
        session_id = self.process.transport_session_id or ""
        if self.run.session is not None or not self.contract.sticky.same_id or unsafe(session_id):
            return None
        return stored_session(self.contract, session_id, 1)
