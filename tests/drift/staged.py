"""Runs the cases of a drift on a real executable that drifts."""

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from tests.drift.drifts import Drift
from tests.probes import engines
from turngate.contract import load
from turngate.contract.engine_contract import EngineContract
from turngate.contract.verdict import ClauseResult
from turngate.process import execution
from turngate.process.executable import difference, fingerprint
from turngate_probes.harness import cases, driver
from turngate_probes.harness.cases import CASES
from turngate_probes.harness.driver import EngineDriver
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.harness.observations import Observations
from turngate_probes.harness.runner import CaseRunner
from turngate_probes.server_level.cases import STICKY_CASES
from turngate_probes.simulate import simulated_process

PLAYED_AT_ONCE = 3
SOURCE = Path(__file__).with_name("wrapper.py")


def play(drift: Drift) -> Observations:
    """Run the drift's cases on its executable, with the contract of the release that it claims to be."""
    engine, _, version = str(drift.executable or drift.simulated).partition("@")
    contract = load.contract(engine).at(version)
    with tempfile.TemporaryDirectory(prefix="drift-") as name:
        executable = install(Path(name), drift, contract)
        before = fingerprint(executable)
        spectator = engines.Spectator(contract)
        CaseRunner.of(Path(name) / "sandboxes", PLAYED_AT_ONCE, Interrupt()).play(
            contract, executable, [case for case in CASES if case.name in drift.cases], spectator
        )
        spectator.observed.changed = difference(before, executable)
    return spectator.observed


def play_sticky(drift: Drift) -> dict[str, ClauseResult]:
    """Run the drift's cases through the reference server, on a simulated engine with its fault, and judge them."""
    engine, _, version = str(drift.simulated).partition("@")
    contract = load.contract(engine).at(version)
    with tempfile.TemporaryDirectory(prefix="drift-") as name:
        folder = Path(name)
        executable = simulated_process.install(contract, folder / "engine", (str(drift.fault),))
        chosen = [case for case in STICKY_CASES if case.name in drift.cases]
        return engines.play(executable, folder, *chosen, contract=contract).judged()


def install(folder: Path, drift: Drift, contract: EngineContract) -> Path:
    """Install the simulated engine with the drift's fault, or the wrapper around the drift's engine, in `folder`."""
    if drift.fault:
        return simulated_process.install(contract, folder, (drift.fault,))
    inner = folder / "engine"
    reported = {
        "engine": str(simulated_process.install(contract, inner) if drift.simulated else engines.install(inner)),
        "changes": drift.changes,
        "proof": contract.guards.proof or "",
        "resume_word": contract.launch.resume[contract.launch.resume.index("{handle}") - 1],
    }
    (folder / "behaviour.json").write_text(json.dumps(reported))
    executable = folder / contract.executable
    executable.write_text(f"#!{sys.executable} -IS\n{SOURCE.read_text()}")
    executable.chmod(0o755)
    return executable


@contextmanager
def without_waiting(*drifts: Drift) -> Iterator[None]:
    """Skip the wait for a later minute and shorten deadlines while the block runs.

    The deadline of a turn is short only if one of the drifts makes turns hang: on a busy machine, others may need it.
    """
    turn = 25.0 if any(change["do"] == "hang" for drift in drifts for change in drift.changes) else driver.TURN_TIMEOUT
    with (
        patch.object(EngineDriver, "until_later_minute", lambda *_: None),
        patch.object(driver, "TURN_TIMEOUT", turn),
        patch.object(driver, "STARTUP_ALLOWANCE", 8.0),
        patch.object(execution, "EXIT_LIMIT", 3.0),
        patch.object(cases, "_deadline", lambda _: 4.0),
    ):
        yield
