"""Identifies executables: their versions, whether they are simulated, and whether they have changed."""

import hashlib
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from turngate.argv.environment import engine_environment
from turngate.contract.launch import HelpPage
from turngate.contract.structs import EngineContract, VersionQuery
from turngate.errors import EnvironmentFailed
from turngate.model import Ended
from turngate.process.execution import ProcessRequest, Stop, run


def identity(executable: Path) -> str:
    """Return a value that changes when the file at a path is replaced or modified; OSError if it is missing."""
    stat = executable.stat()
    return f"{stat.st_ino} {stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns}"


TIMEOUT = 60.0  # seconds for a command that only prints


def printed(
    executable: Path,
    command: VersionQuery | HelpPage,
    env: Mapping[str, str],
    stop: Stop | None,
    cwd: Path | None = None,
) -> tuple[int | None, str]:
    """Run a command that only prints, in `cwd` or an empty directory; EnvironmentFailed if it can't be started.

    Return its exit code (None: it was terminated) and its output.
    """
    import tempfile  # noqa: PLC0415 - seldom needed

    with tempfile.TemporaryDirectory() as empty:
        folder = cwd or Path(empty)
        argv, environment = (str(executable), *command.argv), {**env, "PWD": str(folder)}
        outcome = run(ProcessRequest(argv, folder, environment, timeout=TIMEOUT), stop=stop)
    text = (outcome.stdout if command.stream == "stdout" else outcome.stderr).decode("utf-8", "replace")
    return outcome.exit_code if outcome.ended is Ended.EXIT else None, text


def find_executable(contract: EngineContract) -> Path:
    """Find an engine's executable on PATH; EnvironmentFailed if it is not installed.

    >>> turngate.find_executable(turngate.load_contract("codex")).name
    'codex'
    """
    path = shutil.which(contract.executable)
    if path is None:
        hint = f"install it: npm install --global {contract.npm.package}" if contract.npm else "put it on PATH"
        raise EnvironmentFailed(f"{contract.title} is not installed: no {contract.executable} on PATH", hint)
    return Path(path).absolute()


def engine_version(
    contract: EngineContract,
    executable: Path,
    env: Mapping[str, str] | None = None,
    stop: Stop | None = None,
    cwd: Path | None = None,
) -> str | None:
    """Return the version that an executable reports; None if it prints none. Any release's contract will do.

    It runs with the variables `env` (None: `engine_environment` of this process's), in `cwd` (None: an empty
    directory), until it exits or `stop` is set, for at most 60 seconds. EnvironmentFailed: it can't be started.

    >>> codex = turngate.load_contract("codex")
    >>> turngate.engine_version(codex, turngate.find_executable(codex))
    '0.169.0'
    """
    query = contract.version_query
    if env is None:
        env = engine_environment(contract, os.environ)
    match = re.fullmatch(query.pattern, printed(executable, query, env, stop, cwd)[1].strip())
    return match["version"] if match else None


MARKER = b"# turngate: simulated engine"
_LONGEST_START = 4096


def is_simulated(executable: Path) -> bool:
    """Whether an executable is a simulated engine, or a link to or a copy of one; False if it can't be read.

    Reads only the start of the file, and runs nothing.
    """
    try:
        # opening a named pipe would block
        if not executable.is_file():
            return False
        with executable.open("rb") as file:
            start = file.read(_LONGEST_START)
    except OSError:
        return False
    return MARKER in start.splitlines()


def fingerprint(executable: Path) -> dict[str, str]:
    """Fingerprint the executable by its content, and its npm installation by names, sizes and times of files."""
    real = executable.resolve()
    with real.open("rb") as file:
        digests = {str(real): hashlib.file_digest(file, "sha256").hexdigest()}
    modules = [parent for parent in real.parents if parent.name == "node_modules"]
    if modules:
        for path in sorted(modules[-1].rglob("*")):
            if path.is_file() and not path.is_symlink():
                stat = path.stat()
                digests[str(path)] = f"{stat.st_size} {stat.st_mtime_ns}"
    return digests


def difference(before: dict[str, str], executable: Path) -> str:
    """Return what changed since `before`; empty if nothing did."""
    try:
        after = fingerprint(executable)
    except OSError as gone:
        return f"the executable can no longer be read: {gone.strerror}"
    changed = [path for path in before.keys() | after.keys() if before.get(path) != after.get(path)]
    return f"{len(changed)} files changed, including {min(changed)}" if changed else ""
