"""Runs any command with recording executables in place; only the rules that hold for every call count."""

import os
import shlex
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from turngate import EngineContract, ProcessRequest
from turngate.process.execution import run
from turngate.sanitize import bounded
from turngate_probes.conform import executable
from turngate_probes.conform.answered import NO_CALL, unread
from turngate_probes.conform.calls import EngineCall, calls
from turngate_probes.conform.catalogue import Scenario
from turngate_probes.conform.conform_report import (
    ConformReport,
    ScenarioResult,
    ScenarioRow,
    call_row,
    judged,
    report,
)
from turngate_probes.conform.judge import Breach, Evidence, in_calls
from turngate_probes.conform.plan import ConformPlan
from turngate_probes.conform.run import LONGEST, variable_of
from turngate_probes.harness.interrupt import Interrupt

SIGNALLED = 128  # plus the number of the signal, as a shell reports it
DAYS = 7 * 86_400.0
_ANY = Scenario(id="observed", sentence="", why="", rule="", expect="either")


def observed(
    command: tuple[str, ...],
    contracts: tuple[EngineContract, ...],
    folder: Path,
    interrupt: Interrupt,
    *,
    interactive: bool,
    strict: bool,
) -> ConformReport:
    """Run COMMAND in this directory and environment, its output passed on; MachineError if it can't be started.

    If COMMAND fails, the report has its exit code.
    """
    started, began = datetime.now(UTC), time.monotonic()
    plans = [ConformPlan(str(folder.resolve() / one.engine), one.engine, one.version or "", ()) for one in contracts]
    paths = {plan.engine: executable.install(plan) for plan in plans}
    bins = os.pathsep.join(str(path.parent) for path in paths.values())
    env = dict(os.environ) | {"PATH": f"{bins}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
    env |= {variable_of(engine): str(path) for engine, path in paths.items()}
    with interrupt.scope() as stop:
        request = ProcessRequest(command, Path.cwd(), env, timeout=DAYS, max_output=0)
        outcome = run(request, stop=stop, on_output=_passed_on)
    rows, exit_code = [], outcome.exit_code or 0
    for contract, plan in zip(contracts, plans, strict=True):
        evidence = Evidence(_ANY, (), calls(Path(plan.folder)), interactive=interactive)
        broken = in_calls(evidence)
        left = {left.pid for left in outcome.leftovers}
        for call in evidence.calls:
            if call.started.pid in left:
                detail = f"still running: {shlex.join((contract.executable, *call.started.argv))}"
                broken.append(Breach("orchestrator.leaves-nothing-running", bounded(detail, LONGEST), call.number))
        rows.append(_row(contract, evidence.calls, broken, outcome.exit_code, time.monotonic() - began))
    found = report(
        command, "observed", rows, started, time.monotonic() - began, strict=strict, interrupted=interrupt.is_set()
    )
    if exit_code and not interrupt.is_set():
        return replace(found, exit_code=exit_code if exit_code > 0 else SIGNALLED - exit_code)
    return found


def _row(
    contract: EngineContract, made: tuple[EngineCall, ...], broken: list[Breach], code: int | None, seconds: float
) -> ScenarioRow:
    missing = unread(made) if made else NO_CALL.format(variable=variable_of(contract.engine))
    calls_made, version = tuple(map(call_row, made)), contract.version or ""
    row = ScenarioRow(contract.engine, version, _ANY.id, ScenarioResult.PASS, missing, seconds, (code,), (), calls_made)
    found = judged(row, broken)
    return replace(found, result=ScenarioResult.UNANSWERED) if missing else found


def _passed_on(stream: str, chunk: bytes) -> None:
    out = sys.stdout.buffer if stream == "stdout" else sys.stderr.buffer
    out.write(chunk)
    out.flush()
