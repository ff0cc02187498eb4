"""The server's side of the process that checks output schemas: start it, ask it, end it."""

import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, cast

from turngate.process import TAG
from turngate.process.launch import launch
from turngate_reference.server.output_schema import worker
from turngate_reference.server.output_schema.protocol import (
    SchemaCheck,
    SchemaVerdict,
    decoded_verdict,
    encoded,
    read_frame,
    write_frame,
)

# variables that an interpreter may need, and the tag by which an outer run finds its processes; no secrets
_PASSED = (TAG, "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONHOME")

_SAID = 4096


class CheckProcess:
    """A fresh interpreter that runs `worker` in its own process group; it inherits no descriptors.

    EnvironmentFailed if it can't be started. `kill` may be called from any thread, the rest from one at a time.
    """

    def __init__(self) -> None:
        argv = (sys.executable, "-P", "-X", "utf8", "-m", worker.__name__)
        env = {name: os.environ[name] for name in _PASSED if name in os.environ}
        env["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, sys.path))
        self._process = launch(argv, Path("/"), env, stdin=True, own_session=False)
        self._reaped = self._is_late = False
        self._lock = threading.Lock()

    @property
    def pid(self) -> int:
        """The process id, which is also that of its process group."""
        return self._process.pid

    def ask(self, check: SchemaCheck, seconds: float) -> SchemaVerdict:
        """Have a check done.

        TimeoutError if it takes longer than `seconds` of the clock, and the process is killed; EOFError or another
        OSError if the process dies meanwhile.
        """
        alarm = threading.Timer(seconds, self._too_late)
        alarm.start()
        try:
            write_frame(cast(IO[bytes], self._process.stdin), encoded(check))
            return decoded_verdict(read_frame(cast(IO[bytes], self._process.stdout)))
        except (EOFError, OSError):
            if self._is_late:
                raise TimeoutError(f"it took more than {seconds:g} s") from None
            raise
        finally:
            alarm.cancel()

    def _too_late(self) -> None:
        self._is_late = True
        self.kill()

    def kill(self) -> None:
        """Kill it and all its children; has no effect after `end`."""
        with self._lock, suppress(OSError):
            if not self._reaped:
                os.killpg(self.pid, signal.SIGKILL)

    def end(self) -> str:
        """Kill it, wait until it is gone, and return why its interpreter could not run, if it printed that."""
        self.kill()
        with self._lock:
            self._process.wait()
            with suppress(ChildProcessError):  # a fork of it that became our child
                while True:
                    os.waitpid(-self.pid, 0)
            self._reaped = True
        with cast(IO[bytes], self._process.stderr) as stderr:
            said = stderr.read(_SAID)
        for stream in (self._process.stdin, self._process.stdout):
            cast(IO[bytes], stream).close()
        return said.decode("utf-8", "replace")
