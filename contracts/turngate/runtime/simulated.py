"""Tells a simulated engine, which `turngate simulate --install` wrote, from a real one."""

from pathlib import Path

MARKER = b"# turngate: simulated engine"
_LONGEST_START = 4096


def is_simulated(executable: Path) -> bool:
    """Whether an executable is a simulated engine, or a link to one or a copy of one; False if it can't be read.

    Reads the start of the file alone, and starts nothing.
    """
    try:
        # a named pipe would keep us waiting
        if not executable.is_file():
            return False
        with executable.open("rb") as file:
            start = file.read(_LONGEST_START)
    except OSError:
        return False
    return MARKER in start.splitlines()
