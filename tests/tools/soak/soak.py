"""Runs a real server on loopback under the load of clients, and samples its resource usage."""

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.tools.bench.served import PATIENCE, TURNGATE, Served, serving
from tests.tools.soak.client import ENGINES, Client
from tests.tools.soak.figures import Figures
from tests.tools.soak.flatness import Sample

SLOTS = 8
EVERY = 0.5  # seconds between samples


@dataclass(frozen=True, slots=True)
class Load:
    """The duration in seconds, the number of clients, and the seed of their choices."""

    seconds: float
    clients: int
    seed: int


@dataclass(slots=True)
class Outcome:
    """The measurements of a soak; `left` is what the server still held after every client had finished."""

    figures: Figures = field(default_factory=Figures)
    samples: list[Sample] = field(default_factory=list)
    left: str = ""
    interrupted: bool = False


def soak(load: Load, progress: Callable[[float, Outcome], None]) -> Outcome:
    """Load a server; `progress` gets the elapsed seconds after each sample. Ctrl-C ends it early."""
    outcome, stop = Outcome(), threading.Event()
    with tempfile.TemporaryDirectory(prefix="turngate-soak-") as place:
        folder = Path(place)
        with serving(folder / "data", _environment(folder), "--slots", str(SLOTS)) as served:
            clients = [
                threading.Thread(
                    target=Client(served, outcome.figures, Random(f"{load.seed}/{number}"), stop).work, daemon=True
                )
                for number in range(load.clients)
            ]
            try:
                for client in clients:
                    client.start()
                _watch(served, load, outcome, progress)
                stop.set()
                for client in clients:
                    client.join(PATIENCE)
                outcome.left = _left(served)
            except KeyboardInterrupt:
                outcome.interrupted = True
            finally:
                stop.set()
                outcome.figures.close()
        for client in clients:  # those that an interrupt met now see that their server is gone
            client.join(PATIENCE)
    return outcome


def _environment(folder: Path) -> dict[str, str]:
    """Install the simulated engines; return the environment of the server."""
    for engine in ENGINES:
        subprocess.run((TURNGATE, "simulate", engine, "--install", folder / "bin"), check=True, capture_output=True)
    (folder / "home").mkdir()
    path = os.pathsep.join((str(folder / "bin"), os.environ["PATH"]))
    return os.environ | {"HOME": str(folder / "home"), "PATH": path, "TURNGATE_CACHE_DIR": str(folder / "cache")}


def _watch(served: Served, load: Load, outcome: Outcome, progress: Callable[[float, Outcome], None]) -> None:
    start, pause = time.monotonic(), threading.Event()
    while (passed := time.monotonic() - start) < load.seconds:
        if served.process.poll() is not None:
            outcome.figures.error(f"the server ended with exit code {served.process.returncode}")
            return
        outcome.samples.append(Sample.of(served))
        progress(passed, outcome)
        pause.wait(EVERY)


def _left(served: Served) -> str:
    """Wait until the server holds nothing of any run; return what it still holds after a minute."""
    end, pause = time.monotonic() + 60, threading.Event()
    while left := _held(served):
        if time.monotonic() > end:
            break
        pause.wait(EVERY)
    return left


def _held(served: Served) -> str:
    if served.process.poll() is not None:
        return ""
    slots, streams, processes = (
        int(served.metric("turngate_slots_held")),
        int(served.metric("turngate_streams_open")),
        served.children,
    )
    held = {"slots": slots, "event streams": streams, "processes": processes}
    return ", ".join(f"{count} {name}" for name, count in held.items() if count)
