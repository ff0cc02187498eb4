"""Has output schemas checked and applied in processes with limits, one for each check.

A caller's schema of 4 KB can take any time and memory, in any library. jsonschema-rs 0.60.3 was tried inside of the
server: it matches patterns in linear time, limits the depth of schemas, and fetches nothing if told so. But a schema of
60 levels that each name the next one twice ran without end and held the GIL, so no other thread of the server ran; the
same with `unevaluatedProperties` took 2 GiB; a failed allocation aborted the process, and so did data of 50,000 levels
by a stack overflow. In a process that must be limited anyway it gains nothing, so jsonschema checks there.
"""

import json
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from turngate import MachineError
from turngate.process.launch import launch, refuse_in_critical
from turngate.process.sessions import TAG
from turngate.sanitize import last_lines
from turngate_reference.server.output_schema import OUT_OF_MEMORY

WORKER = "turngate_reference.server.output_schema.worker"  # not imported here: jsonschema takes long to import
# of CPU: a schema is checked while its caller waits; the result of a turn is worth more time
SCHEMA_SECONDS, DATA_SECONDS = 1.0, 5.0
MEMORY = 512 * 2**20
STUCK_SECONDS = 60.0  # of the clock: a process that is stopped or swapped out uses no CPU time
MOST_AT_ONCE = 2
# variables that an interpreter may need, and the tag by which an outer run finds its processes; no secrets
_PASSED = (TAG, "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONHOME")


class SchemaTooCostlyError(Exception):
    """A check exceeded its limits; the text says which."""


class ChecksBusyError(Exception):
    """A check was not done, since too many wait, or since the server is stopping; the text says which."""


class SchemaChecker:
    """Checks schemas, each in a process of its own that may take `cpu_seconds`, and `memory` bytes.

    At most `places` checks run or wait. All methods may also raise MachineError, if a process can't be started or dies
    of something else than its limits, and RuntimeError inside a critical section.
    """

    def __init__(self, cpu_seconds: float, places: float = math.inf, memory: int = MEMORY) -> None:
        self._cpu_seconds, self._memory, self._places = cpu_seconds, memory, places
        self._lock, self._free = threading.Lock(), threading.BoundedSemaphore(MOST_AT_ONCE)
        self._callers, self._is_closed = 0, False
        self._running = set[subprocess.Popen[bytes]]()

    @property
    def pids(self) -> set[int]:
        """The ids of the checking processes."""
        with self._lock:
            return {process.pid for process in self._running}

    def schema_flaw(self, schema: dict[str, Any]) -> str | None:
        """Return what is wrong with a schema, or None; SchemaTooCostlyError or ChecksBusyError if unknown."""
        return self._flaw(schema)

    def data_flaw(self, final_data: Any, schema: dict[str, Any]) -> str | None:
        """Return what in the data violates a schema, or None; raises the same errors as `schema_flaw`."""
        return self._flaw(schema, final_data)

    def close(self) -> None:
        """End all running checks, and fail those that wait."""
        with self._lock:
            self._is_closed = True
            for process in self._running:
                process.kill()

    def _flaw(self, *check: Any) -> str | None:
        refuse_in_critical("an output schema is checked")
        with self._place(), self._free, self._started() as process:
            try:
                answer, stderr = process.communicate(json.dumps(check).encode() + b"\n", STUCK_SECONDS)
            except subprocess.TimeoutExpired:
                raise _too_costly(f"more than {STUCK_SECONDS:g} s") from None
            if process.returncode == 0:
                return cast(str | None, json.loads(answer))
            raise self._failed(process.returncode, stderr)

    @contextmanager
    def _place(self) -> Iterator[None]:
        with self._lock:
            if self._callers == self._places:
                raise ChecksBusyError(f"{self._places} output schemas are being checked already")
            self._callers += 1
        try:
            yield
        finally:
            with self._lock:
                self._callers -= 1

    @contextmanager
    def _started(self) -> Iterator[subprocess.Popen[bytes]]:
        """Start a fresh interpreter in its own process group, without descriptors of ours; it is gone afterwards."""
        limits = str(self._cpu_seconds), str(self._memory)
        argv = (sys.executable, "-P", "-X", "utf8", "-m", WORKER, *limits)
        env = {name: os.environ[name] for name in _PASSED if name in os.environ}
        env["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, sys.path))
        with self._lock:
            if self._is_closed:
                raise ChecksBusyError("the server is stopping")
            process = launch(argv, Path("/"), env, stdin=True, own_session=False)
            self._running.add(process)
        try:
            with process:
                try:
                    yield process
                finally:
                    process.kill()
        finally:
            with self._lock:
                self._running.remove(process)

    def _failed(self, code: int, stderr: bytes) -> Exception:
        """Return the error for a check whose process ended without an answer."""
        if self._is_closed:
            return ChecksBusyError("the server is stopping")
        if code == -signal.SIGPROF:
            return _too_costly(f"more than {self._cpu_seconds:g} s of CPU time")
        if code == OUT_OF_MEMORY:
            return _too_costly(f"more than {self._memory // 2**20} MiB of memory")
        if code < 0 and code != -signal.SIGKILL:
            return SchemaTooCostlyError(f"checking the output schema stopped: its process ended with signal {-code}")
        why = "; ".join(last_lines(stderr.decode("utf-8", "replace"), 1)) or f"exit code {code}"
        what = f"the process that checks an output schema failed: {why}"
        return MachineError(what, "check whether the machine is out of memory")


def _too_costly(what: str) -> SchemaTooCostlyError:
    return SchemaTooCostlyError(f"checking the output schema stopped: it took {what}")
