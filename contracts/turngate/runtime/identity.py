"""Tells executables apart, and one from what it was before."""

from pathlib import Path


def identity(executable: Path) -> str:
    """Give what changes when the file behind a path is replaced or written to; OSError if there is none."""
    stat = executable.stat()
    return f"{stat.st_ino} {stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns}"
