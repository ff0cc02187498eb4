"""The handle record of a run, kept after every attempt, whether or not its engine could be found."""

import logging
from pathlib import Path
from typing import Any

from turngate import load
from turngate.errors import TurngateError
from turngate_reference.installed import InstalledEngine, covering
from turngate_reference.orchestrator.decide import Decision
from turngate_reference.orchestrator.run_record import write_record
from turngate_reference.store.runs import Run

log = logging.getLogger(__name__)


def keep_record(
    run: Run, decision: Decision, session: dict[str, Any] | None, engine: InstalledEngine | None = None
) -> None:
    """Write the record after an attempt; one that can't be written is logged, since the store has the run."""
    try:
        write_record(run, engine or _described(run), decision, session)
    except (TurngateError, OSError) as lacking:
        log.error("the record of %s is not kept: %s", run.run_id, lacking)  # noqa: TRY400 - it says all there is to say
    except Exception:
        log.exception("the record of %s is not kept", run.run_id)


def _described(run: Run) -> InstalledEngine:
    """Describe the engine of a run by its contract alone."""
    contract = load.contract(run.engine)
    newest = contract.at()
    return InstalledEngine(Path(newest.executable), run.engine_version, covering(contract, newest, run.engine_version))
