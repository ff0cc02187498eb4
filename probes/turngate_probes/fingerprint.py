"""Tells whether an executable, or what is installed with it, changed on disk."""

import hashlib
from pathlib import Path


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
    """Say what changed since `before`; empty if nothing did."""
    try:
        after = fingerprint(executable)
    except OSError as gone:
        return f"the executable can't be read any more: {gone.strerror}"
    changed = [path for path in before.keys() | after.keys() if before.get(path) != after.get(path)]
    return f"{len(changed)} files changed, {min(changed)} first" if changed else ""
