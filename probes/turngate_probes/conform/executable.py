"""Writes the executables that an orchestrator finds on PATH, and replaces them when the engine is upgraded.

An executable starts in a fraction of the time that turngate needs: it reads a compiled plan instead of contracts, and
Python gets the folders of its modules instead of looking for them.
"""

import shlex
import sys
from pathlib import Path

import msgspec
from msgspec.structs import replace

import turngate
import turngate_probes
from turngate import load_contract
from turngate.process.executable import MARKER
from turngate_probes.conform import compiled
from turngate_probes.conform.compiled import CompiledPlan
from turngate_probes.conform.plan import BIN, ConformPlan
from turngate_probes.simulate.printing import simulation

_MODULES = (turngate, turngate_probes, msgspec)
# -I, -S: neither variables nor files of the workspace change which modules are imported. Without typing_extensions,
# msgspec uses what Python itself has, and is there in half the time. Collecting garbage while modules are imported
# finds none.
_PYTHON = ("-I", "-S", "-X", "utf8", "-c")
_CODE = "import gc, sys; gc.disable(); sys.path += {paths!r}; sys.modules['typing_extensions'] = None; {statement}"


def install(new: ConformPlan, module: str = "turngate_probes.conform.player") -> Path:
    """Write the executable of a plan, which calls `main` of a module with the plan's folder, and return it."""
    contract = replace(load_contract(new.engine, new.version), deviations=())
    path = Path(new.folder, BIN, contract.executable)
    path.parent.mkdir(parents=True, exist_ok=True)
    compiled.write(CompiledPlan(new, contract, simulation(contract)))
    homes = (str(Path(str(module.__file__)).parents[1]) for module in _MODULES)
    paths = list(dict.fromkeys((*homes, *filter(None, sys.path))))
    code = _CODE.format(paths=paths, statement=f"from {module} import main; main({new.folder!r})")
    # to another file first: a running shell script must not change
    partial = path.with_suffix(".part")
    partial.write_text(f'#!/bin/sh\n{MARKER.decode()}\nexec {shlex.join([sys.executable, *_PYTHON, code])} "$@"\n')
    partial.chmod(0o755)
    partial.replace(path)
    return path


def upgrade(old: ConformPlan) -> str:
    """Replace the executable by that of the next release, once, and return its version."""
    current = compiled.read(Path(old.folder)).plan.version
    if current != old.version:
        return current
    new = replace(old, version=_next(old.version))
    install(new)
    return new.version


def _next(version: str) -> str:
    head, dot, last = version.rpartition(".")
    return f"{head}{dot}{int(last) + 1}"
