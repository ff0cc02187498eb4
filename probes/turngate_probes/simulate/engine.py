"""One call of a simulated engine: from its arguments to what it prints and its exit code."""

import json
from collections.abc import Mapping
from itertools import takewhile

from turngate import EngineContract, EnvironmentFailed
from turngate.argv.build import unguarded
from turngate.contract.simulation import Simulation
from turngate_probes.simulate import arguments, printing, surroundings
from turngate_probes.simulate.backend import EngineContext
from turngate_probes.simulate.call import HeadlessCall
from turngate_probes.simulate.command_line import UsageProblem
from turngate_probes.simulate.printing import fill, rendered
from turngate_probes.simulate.sticky.start import Start
from turngate_probes.simulate.sticky.start import read as read_start


def run(contract: EngineContract, argv: tuple[str, ...], world: EngineContext) -> int:
    """Run the simulated release and return its exit code; EnvironmentFailed if the contract does not describe it."""
    simulation = printing.simulation(contract)
    spelled = [simulation.arguments.spellings.get(token, token) for token in takewhile(lambda t: t != "--", argv)]
    # a user may leave out what the contract adds to every call
    if {*contract.version_query.argv} - {*contract.launch.start} <= {*spelled} <= {*contract.version_query.argv}:
        said = fill(simulation.version, {"version": contract.version or "0.0.0"})
        world.write(contract.version_query.stream, f"{said}\n".encode())
        return 0
    for page in sorted(contract.help.pages, key=lambda page: -len(page.argv)):
        if {*page.argv} <= {*spelled}:
            words = "".join(f"  {name}\n" for name in page.names)
            world.write(page.stream, f"{contract.title} (simulated)\n\n{words}".encode())
            return 0
    if (shown := _configuration(contract, argv, world.env)) is not None:
        world.write("stdout", shown)
        return 0
    try:
        if (start := read_start(contract, argv)) is not None:
            return _serve(contract, simulation, start, world)
        asked = arguments.read(unguarded(contract), argv)
        acts = surroundings.lets_act(contract, argv, world.env, world.cwd)
        return HeadlessCall(contract, simulation, surroundings.visit(contract, argv, world), asked, acts=acts).run()
    except UsageProblem as problem:
        ending = simulation.arguments.refusals.get(problem.kind, simulation.usage)
        slots = {"cwd": world.cwd, "handle": "", "error": str(problem), **problem.slots}
        facts = ["similar" if problem.slots.get("similar") else "dissimilar"]
        for stream, data in rendered(contract, ending.lines, facts, slots):
            world.write(stream, data)
        return ending.exit_code if isinstance(ending.exit_code, int) else 1


def _serve(contract: EngineContract, simulation: Simulation, start: Start, world: EngineContext) -> int:
    """Run turns in a sticky process until the client ends it; EnvironmentFailed if the contract names no protocol."""
    from turngate_probes.simulate.sticky.transports import TRANSPORTS  # noqa: PLC0415 - a headless turn is faster without

    transport = TRANSPORTS.get(start.transport)
    if transport is None:
        raise EnvironmentFailed(f"{contract.engine} has no sticky process", "its contract names no sticky transport")
    try:
        transport(contract, simulation, world, start).serve()
    except SystemExit as ended:
        return int(ended.code or 0)


def _configuration(contract: EngineContract, argv: tuple[str, ...], env: Mapping[str, str]) -> bytes | None:
    """Return the output of the contract's configuration command; None if this is another command.

    That is the content of the variables that make a process ask, or that it acts without asking.
    """
    stance = contract.sticky.interactive
    if stance is None or stance.query is None or argv != stance.query.argv:
        return None
    asked = [env[name] for name in stance.env if env.get(name, "").startswith("{")]
    in_force = json.loads(asked[0]) if asked else {"*": "allow"}
    return json.dumps({stance.query.key: in_force}, indent=2).encode() + b"\n"
