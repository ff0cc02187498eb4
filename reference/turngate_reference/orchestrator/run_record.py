"""The handle record of a run, in its run directory: what `turngate start` would have written."""

from typing import Any

from turngate_reference import handle_record
from turngate_reference.handle_record import PROMPT_KEPT, HandleRecord
from turngate_reference.installed import InstalledEngine
from turngate_reference.orchestrator.decide import Decision
from turngate_reference.states import State
from turngate_reference.store.runs import Run

NAME = "handle.json"
_STATES = {State.WAITING_USER: "asked", State.SUCCEEDED: "answered"}


def write_record(run: Run, engine: InstalledEngine, decision: Decision, session: dict[str, Any] | None) -> None:
    """Write the record after an attempt; EnvironmentFailed if it can't be written."""
    record = HandleRecord(
        handle=run.handle, run_id=run.run_id, run_directory=run.run_directory, engine=run.engine,
        session_field=engine.contract.handle.field if session else None,
        session_value=session["handle_value"] if session else None,
        args=tuple(run.request["engine_options"]), mode=run.mode, model=run.request.get("model"), cwd=run.cwd,
        state=_STATES.get(decision.state, "failed"), turns=run.turn_index,
        prompt=" ".join(run.request["prompt"].split())[:PROMPT_KEPT],
        created_at=run.created_at, updated_at=handle_record.now(),
    )  # fmt: skip
    handle_record.write(run.run_directory / NAME, record)
