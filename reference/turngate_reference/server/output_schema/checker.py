"""Has output schemas checked and applied in a process with limits, which can be killed.

A caller's schema of 4 KB can take any time and memory, in any library. jsonschema-rs 0.60.3 was tried inside of the
server: it matches patterns in linear time, limits the depth of schemas, and fetches nothing if told so. But a schema of
60 levels that each name the next one twice ran without end and held the GIL, so no other thread of the server ran; the
same with `unevaluatedProperties` took 2 GiB; a failed allocation aborted the process, and so did data of 50,000 levels
by a stack overflow. It also takes schemas that refer to themselves endlessly. In a process that must be limited anyway
it gains nothing, so jsonschema checks there.

Callers ask one after the other, each on its own thread: the one that holds `_turn` owns the process. Only `close` and
the alarm of a check touch it from other threads, and they only kill it, which ends the check with the end of the
process's output. A check that used up its CPU time is lost; for any other end of its process it is repeated once in a
fresh one, since the cause may be an earlier check, or the machine.
"""

import io
import json
import logging
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast

from turngate import MachineError
from turngate.process import TAG
from turngate.process.launch import launch, refuse_in_critical
from turngate.sanitize import visible
from turngate_reference.server.output_schema import worker

# of CPU: a schema is checked while its caller waits; the result of a turn is worth more time
SCHEMA_SECONDS, DATA_SECONDS = 1.0, 5.0
MEMORY = 512 * 2**20
STUCK_SECONDS = 60.0  # of the clock: a process that is stopped or swapped out uses no CPU time
# variables that an interpreter may need, and the tag by which an outer run finds its processes; no secrets
_PASSED = (TAG, "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONHOME")
_MAX_STDERR = 4096
_TRIES = 2
_STOPPING = "the server is stopping"

log = logging.getLogger(__name__)


class SchemaTooCostlyError(Exception):
    """A check exceeded its limits; the text says which."""


class ChecksBusyError(Exception):
    """A check was not done, since too many wait, or since the server is stopping; the text says which."""


class SchemaChecker:
    """Checks one schema after the other in one process, which is started for the first check and stays.

    A check may take `cpu_seconds`, and `memory` bytes. At most `places` checks run or wait, each for up to `patience`
    seconds. All methods may also raise MachineError, if the process can't be started or keeps dying, and
    RuntimeError inside a critical section.
    """

    def __init__(
        self,
        cpu_seconds: float,
        places: float = math.inf,
        patience: float = threading.TIMEOUT_MAX,
        memory: int = MEMORY,
    ) -> None:
        self._cpu_seconds, self._memory, self._places, self._patience = cpu_seconds, memory, places, patience
        self._turn, self._lock = threading.Lock(), threading.Lock()
        self._callers = 0
        self._process: _Process | None = None
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The id of the checking process; None if there is none now."""
        return self._process.pid if self._process else None

    def schema_flaw(self, schema: dict[str, Any]) -> str | None:
        """Return what is wrong with a schema, or None; SchemaTooCostlyError or ChecksBusyError if unknown."""
        return self._flaw(schema)

    def data_flaw(self, final_data: Any, schema: dict[str, Any]) -> str | None:
        """Return what in the data violates a schema, or None; raises the same errors as `schema_flaw`."""
        return self._flaw(schema, final_data)

    def close(self) -> None:
        """Fail all running and waiting checks, end the process, and return."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.kill()
        with self._turn:
            self._end_process()

    def _flaw(self, *check: Any) -> str | None:
        refuse_in_critical("an output schema is checked")
        deadline = time.monotonic() + self._patience
        with self._place():
            if not self._turn.acquire(timeout=self._patience):
                raise self._impatient()
            try:
                return self._answered(json.dumps(check).encode() + b"\n", deadline)
            finally:
                self._turn.release()

    @contextmanager
    def _place(self) -> Iterator[None]:
        with self._lock:
            if self._closed:
                raise ChecksBusyError(_STOPPING)
            if self._callers == self._places:
                raise ChecksBusyError(f"{self._places} output schemas are being checked already")
            self._callers += 1
        try:
            yield
        finally:
            with self._lock:
                self._callers -= 1

    def _impatient(self) -> ChecksBusyError:
        return ChecksBusyError(f"checking the output schema took longer than {self._patience:g} s")

    def _answered(self, check: bytes, deadline: float) -> str | None:
        """Have the process do a check, and a fresh one if it ends."""
        code = 0
        for _ in range(_TRIES):
            process = self._started()
            try:
                return process.ask(check, min(STUCK_SECONDS, deadline - time.monotonic()))
            except TimeoutError:
                self._end_process()
                if time.monotonic() >= deadline:
                    raise self._impatient() from None
                raise _too_costly(f"more than {STUCK_SECONDS:g} s") from None
            except EOFError:
                code, stderr = self._end_process()
            if self._closed:
                raise ChecksBusyError(_STOPPING)
            if code == -signal.SIGPROF:
                raise _too_costly(f"more than {self._cpu_seconds:g} s of CPU time")
            log.warning("the process that checks output schemas ended with %d: %s", code, visible(stderr))
        if code == worker.OUT_OF_MEMORY:
            raise _too_costly(f"more than {self._memory // 2**20} MiB of memory")
        if code < 0 and code != -signal.SIGKILL:
            raise SchemaTooCostlyError(f"checking the output schema stopped: its process ended with signal {-code}")
        raise MachineError(
            "the process that checks output schemas died twice", "check whether the machine is out of memory"
        )

    def _started(self) -> "_Process":
        with self._lock:
            if self._closed:
                raise ChecksBusyError(_STOPPING)
            if self._process is None:
                self._process = _Process(self._cpu_seconds, self._memory)
            return self._process

    def _end_process(self) -> tuple[int, str]:
        with self._lock:
            process, self._process = self._process, None
        return process.end() if process is not None else (0, "")


def _too_costly(what: str) -> SchemaTooCostlyError:
    return SchemaTooCostlyError(f"checking the output schema stopped: it took {what}")


class _Process:
    """A fresh interpreter that runs `worker` in its own process group; it inherits no descriptors."""

    def __init__(self, cpu_seconds: float, memory: int) -> None:
        argv = (sys.executable, "-P", "-X", "utf8", "-m", worker.__name__, str(cpu_seconds), str(memory))
        env = {name: os.environ[name] for name in _PASSED if name in os.environ}
        env["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, sys.path))
        self._process = launch(argv, Path("/"), env, stdin=True, own_session=False)
        self._stdin = io.BufferedWriter(cast(io.RawIOBase, self._process.stdin))
        self._stdout = io.BufferedReader(cast(io.RawIOBase, self._process.stdout))
        self.pid, self.kill = self._process.pid, self._process.kill
        self._late = False

    def ask(self, check: bytes, seconds: float) -> str | None:
        """Return the flaw; TimeoutError after `seconds` of the clock, EOFError if the process ends."""
        alarm = threading.Timer(seconds, self._too_late)
        alarm.start()
        try:
            with suppress(BrokenPipeError):  # its output ends too
                self._stdin.write(check)
                self._stdin.flush()
            answer = self._stdout.readline()
        finally:
            alarm.cancel()
            alarm.join()
        if not answer.endswith(b"\n"):
            raise TimeoutError if self._late else EOFError
        return cast(str | None, json.loads(answer))

    def _too_late(self) -> None:
        self._late = True
        self.kill()

    def end(self) -> tuple[int, str]:
        """Kill it, and wait until it is gone; return its exit code, and why its interpreter could not run."""
        self.kill()
        code = self._process.wait()
        stderr = cast(IO[bytes], self._process.stderr)
        text = stderr.read(_MAX_STDERR).decode("utf-8", "replace")
        for stream in (self._stdin, self._stdout, stderr):
            with suppress(OSError):
                stream.close()
        return code, text
