"""What `GET /v1/engines` shows of one engine, in the shape of `Engine` in `openapi.yaml`."""

from pathlib import Path
from typing import Any

from turngate.contract.structs import EngineContract
from turngate.contract.verdict import profile
from turngate.files import default_cache
from turngate.process.executable import is_simulated
from turngate.process.probe_results import last_result
from turngate_reference.engine.lookup import InstalledEngine
from turngate_reference.server.orchestrator.profiles import Profiles

_TIME = "%Y-%m-%dT%H:%M:%SZ"


def describe(
    newest: EngineContract, executable: Path | None, engine: InstalledEngine | None, profiles: Profiles
) -> dict[str, Any]:
    """Describe an engine without running it; `executable` None: it is not installed, `engine` None: not looked at."""
    contract = engine.contract if engine else newest
    simulated = executable is not None and is_simulated(executable)
    verified = profiles.verified(engine) if executable else None
    able = profiles.known(engine) if engine else None
    last = last_result(engine.contract.engine, engine.executable, default_cache()) if engine else None
    return {
        "engine": contract.engine, "title": contract.title, "contract_version": contract.contract_version,
        "lifecycle": contract.lifecycle.status,
        "executable": executable and str(executable),
        "simulated": simulated,
        "version": engine and engine.version,
        "capability": able and {
            "supported": able.supported, "probe_method": able.probe_method, "detail": able.detail
        },
        "profile": able and {"kind": profile(able).kind, "reason": able.detail},
        "verified": verified and verified.status.value,
        "verified_detail": verified and verified.detail,
        "verified_at": f"{verified.at:{_TIME}}" if verified and verified.at else None,
        "sticky": _sticky(contract, simulated=simulated),
        "tools_lost": [{"tool": tool, "detail": each.why} for each in contract.tools_lost for tool in each.tools],
        "help_missing": [*profiles.help_missing(engine)] if engine else [],
        "last_probe": last and {
            "verdict": last.verdict.value, "version": last.version, "at": f"{last.at:{_TIME}}",
            "supported": last.capability.supported,
        },
    }  # fmt: skip


def _sticky(contract: EngineContract, *, simulated: bool) -> dict[str, Any]:
    """Describe by its contract how one process of an engine can be kept over several turns."""
    kept = contract.sticky
    asks, verified = kept.interactive is not None, "sticky" not in contract.unverified and not simulated
    supported = kept.transport != "none" and asks
    if kept.transport == "none":
        detail = "the contract names no way to keep a process"
    elif not supported:
        detail = f"the contract does not say how it asks before it acts over {kept.transport}"
    elif simulated:
        detail = f"driven over {kept.transport} by a simulated engine, which proves nothing about the real one"
    else:
        detail = f"driven over {kept.transport}; {'' if verified else 'not yet '}seen at work with this release"
    return {
        "supported": supported, "transport": kept.transport, "verified": supported and verified, "asks": asks,
        "same_id": kept.same_id, "own_store": kept.own_store, "detail": detail,
    }  # fmt: skip
