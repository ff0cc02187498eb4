"""Has output schemas checked and applied outside of the server, within limits, one after the other."""

import logging
import threading
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any

from turngate import EnvironmentFailed
from turngate.process.launch import refuse_in_critical
from turngate.sanitize import visible
from turngate_reference.server.output_schema.process import CheckProcess
from turngate_reference.server.output_schema.protocol import SchemaCheck, SchemaVerdict

# of CPU: a schema is checked while its caller waits; the result of a turn is worth more time
SCHEMA_SECONDS, DATA_SECONDS = 1.0, 5.0
MEMORY = 512 * 2**20
STUCK_SECONDS = 60.0  # of the clock: a process that is stopped or swapped out uses no CPU time
_TRIES = 2

log = logging.getLogger(__name__)


class SchemaTooCostlyError(Exception):
    """A check exceeded its limits; the text says which."""


class ChecksBusyError(Exception):
    """A check was not done, since too many wait, or since the server is stopping; the text says which."""


class SchemaChecker:
    """A queue of checks with one process, which is started for the first check and stays.

    A check may take `cpu_seconds`. At most `places` checks run or wait, each for up to `patience` seconds (None: no
    limit). A process that dies is replaced. All methods may also raise EnvironmentFailed, if the process
    can't be started or keeps dying, and RuntimeError inside a critical section.
    """

    def __init__(self, cpu_seconds: float, places: int | None = None, patience: float | None = None) -> None:
        self._cpu_seconds, self._places, self._patience = cpu_seconds, places, patience
        self._queue = ThreadPoolExecutor(1, "turngate-schemas")
        self._lock = threading.Lock()
        self._taken = 0
        self._process: CheckProcess | None = None
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The id of the checking process; None if there is none now."""
        return self._process.pid if self._process else None

    def schema_flaw(self, schema: dict[str, Any]) -> str | None:
        """Return what is wrong with a schema, or None; SchemaTooCostlyError or ChecksBusyError if unknown."""
        return self._flaw(SchemaCheck(schema, self._cpu_seconds, MEMORY))

    def data_flaw(self, final_data: Any, schema: dict[str, Any]) -> str | None:
        """Return what in the data violates a schema, or None; raises the same errors as `schema_flaw`."""
        return self._flaw(SchemaCheck(schema, self._cpu_seconds, MEMORY, applies=True, final_data=final_data))

    def close(self) -> None:
        """Fail all running and waiting checks, end the process, and return."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.kill()
        self._queue.shutdown(cancel_futures=True)
        self._end_process()

    def _flaw(self, check: SchemaCheck) -> str | None:
        refuse_in_critical("an output schema is checked")
        future = self._queued(check)
        try:
            verdict = future.result(self._patience)
        except CancelledError:
            raise ChecksBusyError("the server is stopping") from None
        except TimeoutError:
            future.cancel()
            raise ChecksBusyError(f"checking the output schema took longer than {self._patience:g} s") from None
        if verdict.died:
            raise SchemaTooCostlyError(f"checking the output schema stopped: {verdict.died}")
        return verdict.flaw

    def _queued(self, check: SchemaCheck) -> "Future[SchemaVerdict]":
        with self._lock:
            if self._closed:
                raise ChecksBusyError("the server is stopping")
            if self._taken == self._places:
                raise ChecksBusyError(f"{self._places} output schemas are being checked already")
            future = self._queue.submit(self._ask, check)
            self._taken += 1
        future.add_done_callback(self._leave)
        return future

    def _leave(self, _future: object) -> None:
        with self._lock:
            self._taken -= 1

    def _ask(self, check: SchemaCheck) -> SchemaVerdict:
        """Have the process do a check; it is replaced if it dies."""
        for _ in range(_TRIES):
            process = self._started()
            try:
                return process.ask(check, STUCK_SECONDS)
            except TimeoutError as stuck:
                self._end_process()
                return SchemaVerdict(died=str(stuck))
            except (EOFError, OSError):
                said = self._end_process()
                if self._closed:
                    raise ChecksBusyError("the server is stopping") from None
                log.warning("the process %d, which checks output schemas, died: %s", process.pid, visible(said))
        raise EnvironmentFailed(
            "the process that checks output schemas died twice", "check whether the machine is out of memory"
        )

    def _started(self) -> CheckProcess:
        with self._lock:
            if self._closed:
                raise ChecksBusyError("the server is stopping")
            if self._process is None:
                self._process = CheckProcess()
            return self._process

    def _end_process(self) -> str:
        with self._lock:
            process, self._process = self._process, None
        return process.end() if process is not None else ""
