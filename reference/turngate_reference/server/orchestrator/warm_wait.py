"""Whether a resumable run can keep its process between turns."""

from pathlib import Path
from typing import Any

from turngate import EngineContract, Mode, RefusedError
from turngate.argv import build
from turngate_reference.server.requests import RunRequest


def no_proof(contract: EngineContract) -> str | None:
    """Return why no resumable run of a release can keep its process between turns; None if one can."""
    if contract.sticky.warm is not None:
        return None
    release = f"{contract.engine} {contract.version}" if contract.version else contract.engine
    return f"the contract doesn't show that {release} can resume the sessions of a process that stays"


def described(contract: EngineContract) -> dict[str, Any]:
    """Describe whether runs of a release can keep their processes, in the shape of `Engine` in `openapi.yaml`."""
    why, again = no_proof(contract), contract.sticky.loads_headless
    detail = why or f"headless turns resume its sessions; it {'loads' if again else 'can load none of'} theirs"
    return {"supported": why is None, "again": again, "detail": detail}


def no_warm_wait(contract: EngineContract, launch: RunRequest, workspace: Path) -> str | None:
    """Return why a resumable run with this request can't keep its process between turns; None if it can."""
    if why := no_proof(contract):
        return why
    try:
        build.sticky_options(contract, Mode.INTERACTIVE, launch.engine_options, launch.model, workspace, warm=True)
    except RefusedError as refused:
        return str(refused)
    return None
