"""Describes the machine, and samples the peak memory and disk usage of long work."""

import os
import platform
import threading
from collections.abc import Callable
from functools import cache
from typing import Annotated, Self

import psutil
from msgspec import Meta, Struct

from turngate import MachineError, UsageError
from turngate_probes.harness.package_managers import find_program, run_away

INTERVAL = 2.0  # seconds; a sample reads every process of the machine
LEAST_MEMORY = 2**30  # bytes that must be available before another release begins
ENGINE_MEMORY = 2**29  # bytes that one engine may take while it works
WAITING_MEMORY = 2**28  # and while it waits
WAITING_PER_CORE = 40  # only their starts cause load


class ResourceUsage:
    """The peak of memory (sum of the resident sets of this process and its descendants) and of the cache."""

    def __init__(self, used: Callable[[], int]) -> None:
        """Sample `used`, the bytes of the cache, and memory while the context is active."""
        self.memory_bytes = self.cache_bytes = 0
        self._used, self._over = used, threading.Event()
        self._thread = threading.Thread(target=self._sample, name="resource-usage", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.look()

    def look(self) -> None:
        """Take one sample."""
        self.memory_bytes = max(self.memory_bytes, resident_set_bytes())
        self.cache_bytes = max(self.cache_bytes, self._used())

    def _sample(self) -> None:
        while not self._over.is_set():
            self.look()
            self._over.wait(INTERVAL)


def resident_set_bytes() -> int:
    """Return the sum of the resident sets of this process and its descendants; shared memory counts repeatedly."""
    me, total = psutil.Process(), 0
    for process in (me, *me.children(recursive=True)):
        try:
            total += process.memory_info().rss
        except psutil.Error:
            continue
    return total


def enough_memory() -> bool:
    """Return whether another release may start."""
    return psutil.virtual_memory().available >= LEAST_MEMORY


def jobs_for(cores: int) -> int:
    """Return how many engines may run at once: CPU count + 1, if memory allows."""
    return max(1, min(cores + 1, psutil.virtual_memory().available // ENGINE_MEMORY))


def waiting_for(cores: int) -> int:
    """Return how many more engines may run that mostly sleep."""
    return max(1, min(WAITING_PER_CORE * cores, psutil.virtual_memory().available // WAITING_MEMORY))


class Machine(Struct, frozen=True, forbid_unknown_fields=True):
    """The machine of a probe; `memory_gb` null: unknown; `node` null: not installed."""

    system: str
    release: str
    arch: str
    cores: Annotated[int, Meta(ge=1)] | None
    memory_gb: Annotated[float, Meta(ge=0)] | None
    python: str
    node: str | None


def machine() -> Machine:
    """Describe this machine."""
    memory_gb = round(psutil.virtual_memory().total / 2**30, 1)
    about = (platform.system(), platform.release(), platform.machine(), os.cpu_count() or 1, memory_gb)
    return Machine(*about, platform.python_version(), node_version())


def node_version() -> str | None:
    """Return the version of the Node.js on PATH as it prints it, such as v20.1.0; None without one that starts."""
    node = find_program("node")
    return _version_of(node) if node else None


@cache
def _version_of(node: str) -> str | None:
    try:
        outcome = run_away((node, "--version"), timeout=20)
    except (MachineError, UsageError):
        return None
    return outcome.stdout.decode("utf-8", "replace").strip() or None
