"""One round: several servers in a row on one data directory, and the checks in between and at the end."""

import re
import shutil
import signal
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import mkdtemp
from threading import Event, Thread

import psutil
from msgspec import Struct
from msgspec.structs import replace

from tests.fakes.executables import simulated
from tests.patience import PATIENCE
from tests.reference.locked_database import locked_database
from tests.tools.chaos import invariants
from tests.tools.chaos.caller import ChaosCaller
from tests.tools.chaos.client import ServerGoneError, ask
from tests.tools.chaos.life import Life
from tests.tools.chaos.plan import Round
from turngate.contract import load

LIVES = 3


class RoundResult(Struct, frozen=True):
    """What a round showed: `folder` is kept if a promise was `broken`; `visited`: it was interrupted at its step."""

    planned: Round
    steps: list[str]
    visited: bool
    servers: int
    broken: list[str]
    folder: Path | None
    seconds: float


def play(planned: Round, sabotage: str = "") -> RoundResult:
    """Run a round in a separate folder."""
    start, folder = time.monotonic(), Path(mkdtemp(prefix="turngate-chaos-"))
    (folder / "home" / ".codex" / "sessions").mkdir(parents=True)
    simulated(load.contract("codex").at("0.169.0"), folder / "bin" / "codex")
    playing = _Playing(folder, planned, sabotage)
    try:
        playing.run()
    except KeyboardInterrupt:
        playing.end()
        shutil.rmtree(folder)
        raise
    finally:
        playing.end()
    if not playing.broken:
        shutil.rmtree(folder)
    steps = list(dict.fromkeys(playing.steps))
    kept = folder if playing.broken else None
    seconds = time.monotonic() - start
    return RoundResult(planned, steps, playing.visited, playing.servers, playing.broken, kept, seconds)


class _Playing:
    def __init__(self, folder: Path, planned: Round, sabotage: str) -> None:
        self.folder, self.planned, self.sabotage = folder, planned, sabotage
        self.caller = ChaosCaller(planned)
        self.broken = self.caller.broken
        self.steps: list[str] = []
        self.visited, self.interrupted, self.servers = False, False, 0
        self._life: Life | None = None

    def run(self) -> None:
        """Run one server after the other, and check what they leave; stop at the first violation."""
        planned = self.planned
        for number in range(LIVES):
            is_last = number == LIVES - 1 or not planned.interruption
            if is_last:
                planned = replace(planned, interruption="", target=None, interrupted_after=None)
            self._live(planned, is_last=is_last, finish=is_last or number > 0)
            if self.broken or is_last:
                break
            planned = replace(planned, fault="", interrupted_after=None)
            if self.visited or planned.target is None:
                planned = replace(planned, interruption="")
        if not self.broken:
            runs = self.caller.runs
            self.broken += invariants.broken(self.folder, self.planned, runs, interrupted=self.interrupted)

    def end(self) -> None:
        """End everything that a failed round has left running."""
        if self._life is not None and not self._life.is_gone:
            self._life.end(signal.SIGKILL)
        for process in invariants.living(self.folder):
            with suppress(psutil.Error):
                process.kill()

    def _live(self, planned: Round, *, is_last: bool, finish: bool) -> None:
        self.servers += 1
        self._life = life = Life(self.folder, planned, self.sabotage)
        if life.port:
            with _lock(self.folder, planned):
                rests = self.caller.drive(life, finish=finish)
            if rests and not self.broken and is_last:
                self._check_slots(life.port)
            if rests:
                kind = signal.Signals[planned.interruption or "SIGTERM"]
                if planned.target is not None:
                    kind = signal.SIGTERM  # the steps of a normal shutdown may be the target
                if not life.end(kind):
                    self.broken.append(f"a server ends when it is told to: it did not within {PATIENCE:.0f} s")
        if not life.wait():
            self.broken.append(f"a server starts or ends: it hung for {PATIENCE:.0f} s")
        steps, visited = life.steps()
        self.steps += steps
        self.visited = self.visited or visited
        self._check_end(life, planned, ended_early=not life.port and not visited)
        self.interrupted = True

    def _check_slots(self, port: int) -> None:
        """Check that every slot is free again after all runs have ended."""
        last, held = time.monotonic() + PATIENCE, "?"
        while time.monotonic() < last:
            with suppress(ServerGoneError):
                held = re.findall(r"^turngate_slots_held (.*)$", ask(port, "GET", "/metrics")[1], re.MULTILINE)[0]
            if float(held) == 0:
                return
            time.sleep(0.02)
        self.broken.append(f"slots are balanced: {held} are held after all runs have ended")

    def _check_end(self, life: Life, planned: Round, *, ended_early: bool) -> None:
        allowed = {0, -signal.Signals[planned.interruption]} if planned.interruption else {0}
        if life.code not in allowed or (ended_early and planned.interrupted_after is None):
            log = (self.folder / "server.log").read_text("utf-8", "replace")[-2000:]
            self.broken.append(f"a server ends only when it is told to: exit code {life.code}; its log: {log}")
        if life.code == 0:
            self.broken += invariants.orphans(self.folder)


class _lock:  # noqa: N801 - used as a function
    """Have another process lock the database for part of the block, if that is the round's fault."""

    def __init__(self, folder: Path, planned: Round) -> None:
        self._database, self._planned = folder / "data" / "turngate.db", planned
        self._done = Event()
        self._thread = Thread(target=self._hold)

    def _hold(self) -> None:
        if not self._done.wait(self._planned.fault_after):
            with ExitStack() as held:
                held.enter_context(locked_database(self._database))
                self._done.wait(self._planned.fault_lasts)

    def __enter__(self) -> None:
        if self._planned.fault == "locked database":
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        if self._planned.fault == "locked database":
            self._thread.join()
