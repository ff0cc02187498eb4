"""Writes the executables that an orchestrator finds on PATH, and replaces them when the engine is upgraded."""

import shlex
import sys
from pathlib import Path

import msgspec
from msgspec.structs import replace

from turngate import load_contract
from turngate_probes.conform.structs import Plan

BIN = "bin"
_PLAN = "plan.json"


def install(new: Plan) -> Path:
    """Write the executable of a plan, and return it."""
    Path(new.folder, BIN).mkdir(parents=True, exist_ok=True)
    _save(new)
    return _write(new)


def plan(folder: Path) -> Plan:
    """Read the plan of a folder."""
    return msgspec.json.decode((folder / _PLAN).read_bytes(), type=Plan)


def upgrade(old: Plan) -> str:
    """Replace the executable by that of the next release, once, and return its version."""
    current = plan(Path(old.folder)).version
    if current != old.version:
        return current
    new = replace(old, version=_next(old.version))
    _save(new)
    _write(new)
    return new.version


def _save(new: Plan) -> None:
    partial = Path(new.folder, f"{_PLAN}.part")
    partial.write_bytes(msgspec.json.encode(new))
    partial.replace(Path(new.folder, _PLAN))


def _write(new: Plan) -> Path:
    """Write the executable to another file first: a running shell script must not change."""
    from turngate.process.executable import MARKER  # noqa: PLC0415 - not needed to be an engine

    contract = load_contract(new.engine, new.version)
    path = Path(new.folder, BIN, contract.executable)
    # -P: a file in the engine's working directory must not replace one of turngate's modules
    code = f"from turngate_probes.conform.player import main; main({new.folder!r})"
    partial = path.with_suffix(".part")
    partial.write_text(f'#!/bin/sh\n{MARKER.decode()}\nexec {shlex.join([sys.executable, "-P", "-c", code])} "$@"\n')
    partial.chmod(0o755)
    partial.replace(path)
    return path


def _next(version: str) -> str:
    head, dot, last = version.rpartition(".")
    return f"{head}{dot}{int(last) + 1}"
