"""Runs any command with the recording executables in place, and judges the rules that hold for every call."""

import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from turngate import EngineContract, ProcessRequest
from turngate.process import run
from turngate_probes.conform import executable
from turngate_probes.conform.calls import Call, calls
from turngate_probes.conform.judge import Breach, Evidence, in_calls
from turngate_probes.conform.plan import Plan
from turngate_probes.conform.report import BreachRow, ConformReport, Result, ScenarioRow, call_row, severity_of
from turngate_probes.conform.run import variable_of
from turngate_probes.conform.session import NO_CALL, report
from turngate_probes.conform.structs import Scenario
from turngate_probes.harness.interrupt import Interrupt

DAYS = 7 * 86_400.0
_ANY = Scenario(id="observed", sentence="", why="", rule="", expect="either")


def observed(
    command: tuple[str, ...], contracts: tuple[EngineContract, ...], folder: Path, interrupt: Interrupt,
    *, interactive: bool, strict: bool,
) -> ConformReport:  # fmt: skip
    """Run COMMAND in this directory and environment, its output passed on; EnvironmentFailed if it can't be started."""
    started, began = datetime.now(UTC), time.monotonic()
    plans = [Plan(str(folder.resolve() / one.engine), one.engine, one.version or "", ()) for one in contracts]
    paths = {plan.engine: executable.install(plan) for plan in plans}
    bins = os.pathsep.join(str(path.parent) for path in paths.values())
    env = dict(os.environ) | {"PATH": f"{bins}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
    env |= {variable_of(engine): str(path) for engine, path in paths.items()}
    with interrupt.covering() as stop:
        request = ProcessRequest(command, Path.cwd(), env, timeout=DAYS, max_output=0)
        outcome = run(request, stop=stop, on_output=_passed_on)
    rows = []
    for contract, plan in zip(contracts, plans, strict=True):
        seen = Evidence(_ANY, "", (), calls(Path(plan.folder)), interactive=interactive)
        broken = in_calls(seen)
        left = {left.pid: " ".join(left.argv) for left in outcome.leftovers}
        for call in seen.calls:
            if call.started.pid in left:
                detail = f"still running: {left[call.started.pid]}"
                broken.append(Breach("orchestrator.leaves-nothing-running", detail, call.number))
        rows.append(_row(contract, seen.calls, broken, outcome.exit_code, time.monotonic() - began))
    return report(command, "observed", rows, started, began, (), interrupt, strict=strict)


def _row(
    contract: EngineContract, made: tuple[Call, ...], broken: list[Breach], code: int | None, seconds: float
) -> ScenarioRow:
    missing = "" if made else NO_CALL.format(variable=variable_of(contract.engine))
    result = Result.UNANSWERED if missing else Result.FAIL if broken else Result.PASS
    return ScenarioRow(
        contract.engine, contract.version or "", _ANY.id, result, missing, seconds, (code,),
        tuple(BreachRow(row.rule, severity_of(row.rule), row.detail, row.call, None) for row in broken),
        tuple(map(call_row, made)),
    )  # fmt: skip


def _passed_on(stream: str, chunk: bytes) -> None:
    out = sys.stdout.buffer if stream == "stdout" else sys.stderr.buffer
    out.write(chunk)
    out.flush()
