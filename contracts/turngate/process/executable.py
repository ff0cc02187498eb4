"""Tells executables apart, simulated ones from real ones, and changed ones from what they were."""

import hashlib
from pathlib import Path


def identity(executable: Path) -> str:
    """Return what changes when the file behind a path is replaced or written to; OSError if there is none."""
    stat = executable.stat()
    return f"{stat.st_ino} {stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns}"


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


def fingerprint(executable: Path) -> dict[str, str]:
    """Describe the executable by its content, its npm installation by names, sizes and times of files."""
    real = executable.resolve()
    with real.open("rb") as file:
        found = {str(real): hashlib.file_digest(file, "sha256").hexdigest()}
    modules = [parent for parent in real.parents if parent.name == "node_modules"]
    if modules:
        for path in sorted(modules[-1].rglob("*")):
            if path.is_file() and not path.is_symlink():
                stat = path.stat()
                found[str(path)] = f"{stat.st_size} {stat.st_mtime_ns}"
    return found


def difference(before: dict[str, str], executable: Path) -> str:
    """Return what changed since `before`; empty if nothing did."""
    try:
        after = fingerprint(executable)
    except OSError as gone:
        return f"the executable can't be read any more: {gone.strerror}"
    changed = [path for path in before.keys() | after.keys() if before.get(path) != after.get(path)]
    return f"{len(changed)} files changed, {min(changed)} first" if changed else ""
