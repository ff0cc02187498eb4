"""One server process of a round: `turngate serve`, forked from a process that has already imported it.

This makes a start twenty times as fast as a new interpreter's; otherwise the server is like any other.
"""

import os
import re
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.patience import PATIENCE
from tests.tools.chaos import faults, sabotage
from tests.tools.chaos.plan import Round
from tests.tools.chaos.steps import Steps
from turngate import cli
from turngate_reference.server import cli as _preloaded  # noqa: F401 - so that no server imports it


class Life:
    """A server process: `port` 0 means that it ended before it was ready; `steps` are the steps it reached."""

    def __init__(self, folder: Path, planned: Round, broken: str = "") -> None:
        """Start it on the round's data directory; `broken` names a sabotage."""
        self._report, report = os.pipe()
        out, output = os.pipe()
        ready, self._ready = os.pipe()
        log = os.open(folder / "server.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.code: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setpgid(0, 0)  # Ctrl-C at the terminal is for whoever started it
                for descriptor, number in ((output, 1), (log, 2)):
                    os.dup2(descriptor, number)
                _serve(folder, planned, report, ready, broken)
            except BaseException:  # noqa: BLE001 - os._exit would lose it
                traceback.print_exc()
            finally:
                os._exit(70)
        for descriptor in (report, output, ready, log):
            os.close(descriptor)
        self.port = self._listening(out)
        os.close(out)
        if self.port:
            os.write(self._ready, b"!!")  # one byte for each waiting thread

    @property
    def is_gone(self) -> bool:
        """Whether the process has ended."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code is not None

    def end(self, number: signal.Signals) -> bool:
        """Send a signal and wait for the exit; False if it hangs, and is killed."""
        if not self.is_gone:
            os.kill(self.pid, number)
        return self.wait()

    def wait(self) -> bool:
        """Wait for an exit that the process has a reason for; False if it hangs, and is killed."""
        last = time.monotonic() + PATIENCE
        while not self.is_gone and time.monotonic() < last:
            time.sleep(0.005)
        hangs = not self.is_gone
        if hangs:
            os.kill(self.pid, signal.SIGKILL)
            _, status = os.waitpid(self.pid, 0)
            self.code = os.waitstatus_to_exitcode(status)
        return not hangs

    def steps(self) -> tuple[list[str], bool]:
        """Return the steps that an ended server reached, and whether it was interrupted at one."""
        with open(self._report, "rb") as file:  # noqa: PTH123 - a descriptor
            lines = file.read().decode().splitlines()
        os.close(self._ready)
        return [line for line in lines if line != "!"], "!" in lines

    def _listening(self, out: int) -> int:
        """Wait for the line with the listening address; 0 if the server ended before."""
        said, last = b"", time.monotonic() + PATIENCE
        while select.select([out], [], [], max(0.0, last - time.monotonic()))[0]:
            if not (data := os.read(out, 4096)):
                break
            said += data
            if matched := re.search(rb"http://127\.0\.0\.1:(\d+)", said):
                return int(matched[1])
        return 0


def _serve(folder: Path, planned: Round, report: int, ready: int, broken: str) -> None:
    """Run the server in this process."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    os.environ.pop("TURNGATE_RUN", None)
    os.environ |= {"HOME": str(folder / "home"), "PATH": f"{folder / 'bin'}:/usr/bin:/bin"}
    os.environ |= {"TURNGATE_CACHE_DIR": str(folder / "cache")}
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - a descriptor
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False, buffering=1)  # noqa: SIM115 - a descriptor
    sabotage.apply(broken)
    kind = signal.Signals[planned.interruption] if planned.interruption else None
    Steps(report, planned.target, kind).install()
    interrupt: Callable[[], None] = lambda: os.kill(os.getpid(), kind or signal.SIGKILL)  # noqa: E731 - as a value
    faults.schedule(planned, ready, interrupt)
    argv = (
        "serve",
        "--port",
        "0",
        "--data-dir",
        str(folder / "data"),
        "--verify",
        "off",
        "--no-token",
        "--slots",
        str(planned.slots),
    )
    code = cli.run(argv)
    sys.stdout.flush()
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.main_thread():
            thread.join()
    os._exit(code)
