"""A database that another process has locked."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

_PROGRAM = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def locked_database(path: Path) -> Iterator[None]:
    """Have another process lock the database while the block runs."""
    program = (sys.executable, "-IS", "-c", _PROGRAM, str(path))
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert cast(IO[bytes], process.stdout).readline() == b"locked\n"
        yield
