"""How the tests run the program of that name."""

import os
import sys
from pathlib import Path
from typing import Any

from turngate.process import ProcessRequest

PROGRAM = Path(__file__).with_name("programs") / "unruly.py"


def unruly(*verb: str, **options: Any) -> ProcessRequest:
    """Return the request that runs a verb of the program."""
    argv = (sys.executable, "-I", "-S", str(PROGRAM), *verb)
    return ProcessRequest(argv, cwd=Path("/"), env={"PATH": os.defpath}, **options)
