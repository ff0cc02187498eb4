"""The handle record of a run, kept after every attempt."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from turngate.contract import load
from turngate.model import Mode
from turngate_reference import handle_record
from turngate_reference.data_dir import DataDir
from turngate_reference.engine.lookup import covering
from turngate_reference.handle_record import PROMPT_KEPT, HandleRecord
from turngate_reference.server.states import State
from turngate_reference.server.store.rows import Run, own_cwd

log = logging.getLogger(__name__)

STATES = {
    State.QUEUED: "queued", State.RUNNING: "unfinished", State.WAITING_USER: "asked",
    State.SUCCEEDED: "answered", State.FAILED: "failed", State.CANCELED: "canceled",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Records:
    """Writes the records of served runs into a data directory."""

    data: DataDir

    def create(self, handle: str, directory: Path, request: dict[str, Any], workspace: Path | None) -> None:
        """Write the record of a run that has no turn yet; EnvironmentFailed if it can't be written."""
        cwd = workspace or own_cwd(directory)
        handle_record.write(self.data.record(handle), _new(handle, directory, request, cwd))

    def keep(self, run: Run, state: State, session: dict[str, Any] | None) -> None:
        """Write the record after a turn; a failure is only logged, since the store has the run."""
        try:
            handle_record.write(self.data.record(run.handle), record_of(run, state, session))
        except Exception:
            log.exception("the record of %s is not kept", run.run_id)


def record_of(run: Run, state: State, session: dict[str, Any] | None) -> HandleRecord:
    """Return the record of a run that has had a turn."""
    return replace(
        _new(run.handle, run.run_directory, run.request, run.cwd),
        session_field=_session_field(run) if session else None,
        session_value=session["handle_value"] if session else None,
        locations=run.locations, state=STATES[state], turns=run.turn_index, created_at=run.created_at,
    )  # fmt: skip


def _new(handle: str, directory: Path, request: dict[str, Any], cwd: Path) -> HandleRecord:
    at = handle_record.now()
    return HandleRecord(
        handle=handle, run_id=directory.name, run_directory=directory, engine=request["engine"],
        session_field=None, session_value=None, args=tuple(request["engine_options"]),
        mode=Mode(request["execution_mode"]), model=request.get("model"), cwd=cwd, locations={},
        state=STATES[State.QUEUED], turns=0, prompt=" ".join(request["prompt"].split())[:PROMPT_KEPT],
        created_at=at, updated_at=at, served=True,
    )  # fmt: skip


def _session_field(run: Run) -> str:
    contract = load.contract(run.engine)
    return covering(contract, contract.at(), run.engine_version).handle.field
