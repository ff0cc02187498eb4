"""Identifies executables: their versions, whether they are simulated, and whether they have changed."""

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from turngate.argv.environment import engine_environment
from turngate.contract.engine_contract import EngineContract, VersionQuery
from turngate.contract.launch import HelpPage, Stream
from turngate.decoding import decode
from turngate.errors import NotInstalledError
from turngate.files import read_own, write_atomically
from turngate.model import Ended
from turngate.process.execution import ProcessRequest, Stop, run
from turngate.sanitize import bounded

TIMEOUT = 60.0  # seconds for a command that only prints
REMEMBERED = 200  # executables in a file of versions
_SHOWN = 80  # characters of what an executable printed in place of its version
_MOST_BYTES = 2**20
MARKER = b"# turngate: simulated engine"
_LONGEST_START = 4096


def identity(executable: Path) -> str:
    """Return a value that changes when the file at a path is replaced or modified; OSError if it is missing."""
    stat = executable.stat()
    return f"{stat.st_ino} {stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns}"


class PrintedText(Struct, frozen=True):
    """The text of a command that only prints; `exit_code` None: it was terminated."""

    exit_code: int | None
    stdout: str
    stderr: str

    def on(self, stream: Stream) -> str:
        """Return the text of a stream."""
        return self.stdout if stream == "stdout" else self.stderr

    def misplaced(self, stream: Stream, holds: Callable[[str], object]) -> str:
        """Return what to change in the contract if a stream is empty and the other one `holds` the text, else ""."""
        other: Stream = "stderr" if stream == "stdout" else "stdout"
        if self.on(stream).strip() or not holds(self.on(other).strip()):
            return ""
        return f"{stream} was empty, {other} has it; set `stream: {other}`"


def printed(
    executable: Path,
    command: VersionQuery | HelpPage,
    env: Mapping[str, str],
    stop: Stop | None,
    cwd: Path | None = None,
    timeout: float | None = None,
) -> PrintedText:
    """Run a command that only prints, in `cwd` or an empty directory; MachineError if it can't be started.

    It is terminated after `timeout` seconds (None: `TIMEOUT`).
    """
    import tempfile  # noqa: PLC0415 - seldom needed

    with tempfile.TemporaryDirectory() as empty:
        folder = cwd or Path(empty)
        argv, environment = (str(executable), *command.argv), {**env, "PWD": str(folder)}
        outcome = run(ProcessRequest(argv, folder, environment, timeout=timeout or TIMEOUT), stop=stop)
    stdout, stderr = (stream.decode("utf-8", "replace") for stream in (outcome.stdout, outcome.stderr))
    return PrintedText(outcome.exit_code if outcome.ended is Ended.EXIT else None, stdout, stderr)


def find_executable(contract: EngineContract) -> Path:
    """Find an engine's executable on PATH; NotInstalledError if it is not installed.

    >>> turngate.find_executable(turngate.load_contract("codex")).name
    'codex'
    """
    found = on_path(contract.executable)
    if found is None:
        hint = f"install it: {contract.install_command}" if contract.install_command else "put it on PATH"
        raise NotInstalledError(f"{contract.title} is not installed: no {contract.executable} on PATH", hint)
    return found.absolute()


def on_path(name: str) -> Path | None:
    """Return the first executable of a name on PATH, relative if its folder there is; None if there is none."""
    # shutil.which does the same, but its module takes longer to import than the search
    places = (Path(folder, name) for folder in os.get_exec_path())
    return next((place for place in places if os.access(place, os.X_OK) and place.is_file()), None)


def engine_version(
    contract: EngineContract,
    executable: Path,
    env: Mapping[str, str] | None = None,
    stop: Stop | None = None,
    cwd: Path | None = None,
) -> str | None:
    """Return the version that an executable reports; None if it prints none. Any release's contract will do.

    It runs with the variables `env` (None: `engine_environment` of this process's), in `cwd` (None: an empty
    directory), until it exits or `stop` is set, for at most 60 seconds. MachineError: it can't be started.

    >>> codex = turngate.load_contract("codex")
    >>> turngate.engine_version(codex, turngate.find_executable(codex))
    '0.169.0'
    """
    if env is None:
        env = engine_environment(contract, os.environ)
    return query_version(contract.version_query, executable, env, stop, cwd)[0]


def query_version(
    query: VersionQuery, executable: Path, env: Mapping[str, str], stop: Stop | None, cwd: Path | None = None
) -> tuple[str | None, str]:
    """Return the version that an executable reports; or None, and what it printed instead, as far as it is known."""
    return version_in(printed(executable, query, env, stop, cwd), query)


def version_in(output: PrintedText, query: VersionQuery) -> tuple[str | None, str]:
    """Return what `query_version` does, from what the executable printed."""
    pattern = re.compile(query.pattern)
    match = pattern.fullmatch(output.on(query.stream).strip())
    misplaced = output.misplaced(query.stream, pattern.fullmatch)
    if misplaced and query.other_stream:
        match, misplaced = pattern.fullmatch((output.stdout + output.stderr).strip()), ""
    if match:
        return match["version"], ""
    shown = " ".join((output.on(query.stream) or output.stdout or output.stderr).split())
    return None, misplaced or (f"it printed {bounded(shown, _SHOWN)!r}" if shown else "it printed nothing")


def remembered_version(executable: Path, now: str, file: Path) -> str | None:
    """Return the version that `remember_version` wrote for an executable; None unless its identity still is `now`."""
    earlier, version = _remembered(file).get(str(executable), ("", ""))
    return version if earlier == now else None


def remember_version(executable: Path, now: str, version: str, file: Path) -> None:
    """Write the version of an executable, whose identity is `now`, to a file for many; OSError if that fails."""
    others = {name: seen for name, seen in _remembered(file).items() if name != str(executable)}
    # by the name on PATH, since version managers link the names of many engines to one program
    kept = [*others.items(), (str(executable), (now, version))][-REMEMBERED:]
    write_atomically(file, msgspec.json.format(msgspec.json.encode(dict(kept))).decode() + "\n", private=True)


def _remembered(file: Path) -> dict[str, tuple[str, str]]:
    with suppress(OSError, ValueError, RecursionError):
        return decode(read_own(file, _MOST_BYTES), dict[str, tuple[str, str]])
    return {}


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


def missing_interpreter(executable: Path) -> str | None:
    """Return the program that the `#!` line of a script names if it is not here; None if nothing is missing."""
    try:
        with executable.open("rb") as file:
            first = file.readline(_LONGEST_START)
    except OSError:
        return None
    words = os.fsdecode(first[2:]).split() if first.startswith(b"#!") else []
    if words[1:] and Path(words[0]).name == "env":
        # such as `env -S NAME=value node --option`
        named = next((word for word in words[1:] if not word.startswith("-") and "=" not in word), None)
        return named if named and not on_path(named) else None
    return words[0] if words and not Path(words[0]).exists() else None


def fingerprint(executable: Path) -> dict[str, str]:
    """Fingerprint the executable by its content, and its packages by names, sizes and times of files.

    These are the packages that npm installed with it, or those of its Python environment.
    """
    import hashlib  # noqa: PLC0415 - slow to import, and seldom needed

    real = executable.resolve()
    with real.open("rb") as file:
        digests = {str(real): hashlib.file_digest(file, "sha256").hexdigest()}
    modules = [parent for parent in real.parents if parent.name == "node_modules"]
    modules += [parent / "lib" for parent in real.parents[1:2] if (parent / "pyvenv.cfg").is_file()]
    if modules:
        for path in sorted(modules[-1].rglob("*")):
            # Python writes the latter when it runs
            if path.is_file() and not path.is_symlink() and path.suffix != ".pyc":
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
