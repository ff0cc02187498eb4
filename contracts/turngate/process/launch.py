"""Starts a process, and explains in plain words why it could not be started.

If no file descriptor is free, a process tree can be neither seen nor ended, so others wait for one here. Starting a
process while others wait, for example in an open transaction, is a bug and is refused.
"""

import errno
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from typing import TypeVar

from turngate.errors import MachineError, TurngateError, UsageError

PATIENCE = 30.0  # seconds
HINT = "raise the limit of open files (ulimit -n)"
_PAUSE = 0.05
NONE_FREE = frozenset({errno.EMFILE, errno.ENFILE})  # in this process, or on this machine
_T = TypeVar("_T")
_here = threading.local()
_TEXT_BY_STDIN = "pass long text on standard input"
# a new file is busy until every process started since it was written has closed its copy of the descriptor
_BUSY_PAUSES = (0.01, 0.05, 0.1, 0.5, 1.0)


def patiently(action: Callable[[], _T]) -> _T:
    """Return what `action` returns, repeating it for some time while no descriptor is free; OSError if none gets free.

    Other errors of the action are raised at once.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return action()
        except OSError as error:
            if error.errno not in NONE_FREE or time.monotonic() >= deadline:
                raise
            time.sleep(_PAUSE)


@contextmanager
def critical(section: str) -> Iterator[None]:
    """Reject slow work on this thread while the block runs; `section` names it in the error."""
    outer = getattr(_here, "section", None)
    _here.section = section
    try:
        yield
    finally:
        _here.section = outer


def refuse_in_critical(work: str) -> None:
    """RuntimeError if this thread is in a critical section, where slow work is a bug."""
    if (section := getattr(_here, "section", None)) is not None:
        raise RuntimeError(f"{work} in {section}: do it before or after")


def launch(
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    *,
    stdin: bool,
    stdout: int | None = None,
    own_session: bool = True,
) -> subprocess.Popen[bytes]:
    """Start `argv` with unbuffered pipes for its output; it leads a new session or else a new process group.

    `argv[0]` is looked up on the `PATH` of `env`. `stdin`: open a pipe for input; otherwise there is no input.
    `stdout` is a descriptor that takes the place of a pipe.
    TurngateError explains why the process could not be started.
    """
    refuse_in_critical("a process is started")
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
        raise MachineError("SIGCHLD is ignored, so no exit code can be read", "restore its default action")
    pauses = iter(_BUSY_PAUSES)
    while True:
        try:
            # unbuffered, so that read(n) returns what is there instead of waiting for n bytes
            return subprocess.Popen(
                tuple(argv),
                bufsize=0,
                cwd=cwd,
                env=dict(env),
                start_new_session=own_session,
                process_group=None if own_session else 0,
                stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                stdout=subprocess.PIPE if stdout is None else stdout,
                stderr=subprocess.PIPE,
            )
        except OSError as error:
            pause = next(pauses, None) if error.errno == errno.ETXTBSY else None
            if pause is None:
                raise _explained(error, argv, cwd, env) from error
            sleep(pause)
        except ValueError as error:
            what = f"{argv[0]!r} could not be started: {error}"
            raise UsageError(what, f"arguments can't contain NUL characters; {_TEXT_BY_STDIN}") from error


def _explained(error: OSError, argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> TurngateError:
    """Return the error with its cause and a hint on how to fix it."""
    if error.errno == errno.E2BIG:
        return _too_long(argv, env)
    if error.filename is not None and os.fspath(error.filename) == os.fspath(cwd):
        hint = "create it" if error.errno == errno.ENOENT else "name a directory that you may enter"
        return UsageError(f"working directory {str(cwd)!r}: {error.strerror}", hint)
    what = f"{argv[0]!r} could not be started: {error.strerror}"
    hints = {
        errno.ENOENT: "install it, put it on PATH, or check the interpreter named in its first line",
        errno.EACCES: "make it an executable file",
        errno.ETXTBSY: "wait until the program that writes to it has exited",
        **dict.fromkeys(NONE_FREE, HINT),
        errno.ENOEXEC: "check that it is a program for this machine, or a script with a `#!` line",
    }
    return MachineError(what, hints.get(error.errno or 0, "check this account's limits (ulimit -a)"))


def _too_long(argv: Sequence[str], env: Mapping[str, str]) -> UsageError:
    """Return an error with the exceeded limit: Linux limits one argument (32 pages), and all of them together."""
    single = 32 * os.sysconf("SC_PAGE_SIZE")
    entries = [*argv, *(f"{name}={value}" for name, value in env.items())]
    sizes = [len(os.fsencode(entry)) + 1 for entry in entries]
    if max(sizes) > single:
        kind = "argument" if max(sizes[: len(argv)]) > single else "environment variable"
        limit = f"one {kind} is {max(sizes)} bytes long; the system allows {single} at most"
    else:
        total = os.sysconf("SC_ARG_MAX")
        limit = f"arguments and environment are {sum(sizes)} bytes long; the system allows about {total}"
    return UsageError(f"{argv[0]!r} could not be started: {limit}", _TEXT_BY_STDIN)
