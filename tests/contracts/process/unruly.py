"""Requests that run the unruly program."""

import os
import sys
from pathlib import Path
from typing import Any

from turngate.process.execution import ProcessRequest

PROGRAM = Path(__file__).with_name("programs") / "unruly.py"


def unruly(*verb: str, **options: Any) -> ProcessRequest:
    """Return the request for a verb of the program."""
    argv = (sys.executable, "-I", "-S", str(PROGRAM), *verb)
    return ProcessRequest(argv, cwd=Path("/"), env={"PATH": os.defpath}, **options)
