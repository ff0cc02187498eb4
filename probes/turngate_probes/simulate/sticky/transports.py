"""The sticky transports that can be simulated, by their names in contracts."""

from collections.abc import Mapping

from turngate_probes.simulate.sticky.acp import SimulatedAcp
from turngate_probes.simulate.sticky.app_server import SimulatedAppServer
from turngate_probes.simulate.sticky.engine import StickyEngine
from turngate_probes.simulate.sticky.json_commands import SimulatedJsonCommands
from turngate_probes.simulate.sticky.service import SimulatedService
from turngate_probes.simulate.sticky.stream_json import SimulatedStreamJson

TRANSPORTS: Mapping[str, type[StickyEngine]] = {
    "acp": SimulatedAcp,
    "app_server": SimulatedAppServer,
    "json_commands": SimulatedJsonCommands,
    "service": SimulatedService,
    "stream_json": SimulatedStreamJson,
}
