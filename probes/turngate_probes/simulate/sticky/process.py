"""Starts a simulated engine whose process is kept over several turns."""

import json
from collections.abc import Mapping

from turngate.contract.simulation import Simulation
from turngate.contract.structs import EngineContract
from turngate.errors import EnvironmentFailed
from turngate_probes.simulate import arguments
from turngate_probes.simulate.backend import EngineContext
from turngate_probes.simulate.sticky.acp import SimulatedAcp
from turngate_probes.simulate.sticky.app_server import SimulatedAppServer
from turngate_probes.simulate.sticky.client import EndedError, StdioClient
from turngate_probes.simulate.sticky.engine import StickyEngine
from turngate_probes.simulate.sticky.stream_json import SimulatedStreamJson

_TRANSPORTS: Mapping[str, type[SimulatedAcp | SimulatedAppServer | SimulatedStreamJson]] = {
    "acp": SimulatedAcp, "app_server": SimulatedAppServer, "stream_json": SimulatedStreamJson,
}  # fmt: skip


def serve(contract: EngineContract, simulation: Simulation, argv: tuple[str, ...], world: EngineContext) -> int:
    """Run turns until the client ends the process, and return its exit code.

    Raises:
        UsageProblem: the arguments are not those of such a process.
        EnvironmentFailed: the contract names no protocol.
    """
    transport = _TRANSPORTS.get(contract.sticky.transport)
    if transport is None:
        raise EnvironmentFailed(f"{contract.engine} can't keep a process", "its contract names no transport")
    asked = arguments.read_sticky(contract, argv)
    try:
        transport(StickyEngine(contract, simulation, world, asked.options, asked.model), StdioClient(world)).serve()
    except EndedError as ended:
        return ended.exit_code


def configuration(contract: EngineContract, argv: tuple[str, ...], env: Mapping[str, str]) -> bytes | None:
    """Return what the contract's command prints of the configuration in force; None if it is another command.

    That is what the variables hold by which a process is made to ask, or that it acts without asking.
    """
    stance = contract.sticky.interactive
    if stance is None or stance.query is None or argv != stance.query.argv:
        return None
    asked = [env[name] for name in stance.env if name in env]
    in_force = json.loads(asked[0]) if asked else {"*": "allow"}
    return json.dumps({stance.query.key: in_force}, indent=2).encode() + b"\n"
