"""Describes the machine that a probe runs on, for reports."""

import os
import platform
import shutil
from pathlib import Path
from typing import Any

import psutil

from turngate.errors import EnvironmentFailed
from turngate.runtime import ProcessRequest, run


def machine() -> dict[str, Any]:
    """Give system, architecture, cores, memory in GB, and versions of Python and Node (None: there is none)."""
    return {
        "system": platform.system(),
        "release": platform.release(),
        "arch": platform.machine(),
        "cores": os.cpu_count() or 1,
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "python": platform.python_version(),
        "node": _node_version(),
    }


def _node_version() -> str | None:
    node = shutil.which("node")
    if node is None:
        return None
    try:
        outcome = run(ProcessRequest((node, "--version"), Path.cwd(), {"PATH": os.environ.get("PATH", "")}, timeout=20))
    except EnvironmentFailed:
        return None
    return outcome.stdout.decode("utf-8", "replace").strip() or None
