"""Faults inside a server process: a full disk, no descriptors, and a wall clock that jumps."""

import os
import resource
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from typing import Any, cast

import psutil

from tests.tools.chaos.plan import Fault, Round
from turngate_reference import handle_record

HOUR = 3600.0


def schedule(planned: Round, ready: int, interrupt: Callable[[], None]) -> None:
    """Begin and end the round's fault, and interrupt the server, at the planned times.

    Each action has its own thread, and its time counts from when a byte arrives on the descriptor `ready`.
    """

    def faults() -> None:
        os.read(ready, 1)
        time.sleep(planned.fault_after)
        begin(planned.fault)
        time.sleep(planned.fault_lasts)
        lift()

    def moment(seconds: float) -> None:
        os.read(ready, 1)
        time.sleep(seconds)
        interrupt()

    if planned.fault not in ("", "locked database"):
        threading.Thread(target=faults, daemon=True).start()
    if planned.interrupted_after is not None:
        threading.Thread(target=moment, args=(planned.interrupted_after,), daemon=True).start()


def begin(fault: Fault) -> None:
    """Start a fault in this process; a database lock comes from another process."""
    match fault:
        case "full disk":
            _limit(resource.RLIMIT_FSIZE, 0)
        case "no descriptors":
            # below the next descriptor, but above what the server polls, since poll() refuses to look at more
            descriptor = os.dup(0)
            os.close(descriptor)
            _limit(resource.RLIMIT_NOFILE, descriptor)
        case "clock ahead" | "clock back":
            _jump(HOUR if fault == "clock ahead" else -HOUR)


def lift() -> None:
    """End the faults that are caused by limits."""
    for kind in (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE):
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (hard, hard))


def _limit(kind: int, soft: int) -> None:
    resource.setrlimit(kind, (soft, resource.getrlimit(kind)[1]))


def _jump(seconds: float) -> None:
    """Shift every wall clock that this process reads."""
    now, gmtime = time.time, time.gmtime

    class Moved(datetime):
        """A datetime whose `now` is shifted."""

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> "Moved":
            return super().now(tz) + timedelta(seconds=seconds)

    def moved_gmtime(at: float | None = None) -> time.struct_time:
        return gmtime(now() + seconds if at is None else at)

    cast(Any, time).time, cast(Any, time).gmtime = lambda: now() + seconds, moved_gmtime
    cast(Any, handle_record).datetime = Moved
    # start times of processes are counted from boot time, which moves with the clock
    system: Any = vars(psutil)["_psplatform"]
    boot = system.boot_time
    system.boot_time = lambda: boot() + seconds
