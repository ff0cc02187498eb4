from pathlib import Path

import pytest

from tests.probes.simulate.played import SimulatedMachine, at_known_release
from tests.probes.simulate.vectors import REMEMBERED, Outcome, Vector, vectors

RECORDED = [pytest.param(name, vector, id=f"{name}: {vector.name}") for name in vectors() for vector in vectors()[name]]


@pytest.mark.parametrize("engine, vector", RECORDED)
def test_arguments_do_what_they_do_with_the_real_cli(engine: str, vector: Vector, tmp_path: Path) -> None:
    """The simulator accepts and refuses the arguments as recorded of the real release, with the same message."""
    contract, machine = at_known_release(engine), SimulatedMachine(tmp_path)
    for folder in ("work", "other"):
        (tmp_path / folder).mkdir()
    handle = machine.start(contract, REMEMBERED).session(contract)
    argv = vector.filled(work=tmp_path / "work", other=tmp_path / "other", handle=handle)
    played = machine.call(contract, argv, vector.stdin.encode())
    said = [m for m in played.requests[0].messages if m["role"] == "user"] if played.requests else None
    texts = tuple(str(message["content"]) for message in said) if said is not None else None
    model = played.requests[0].model if played.requests else None
    Outcome(played.exit_code, played.stdout.decode(), played.stderr.decode(), model, texts).assert_is(vector)
