"""100 runs with a sticky process each: how late they fail after their deadlines, and what remains of them."""

import json
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import psutil

from tests.tools.bench.form import Tally
from tests.tools.bench.rows import Measured, Row, Target, measured
from tests.tools.bench.served import ASK, Served, make_home, serving

RUNS = Tally(full=100, short=8)
SECONDS = Tally(full=30, short=8)  # all must wait before the first deadline
ROWS = (Row("sticky", "A sticky run of 100 fails after its deadline, at worst", "ms", target=Target(250)),)
LOOK = 0.005
PATIENCE = 60
ENDED = "INTERACTION_WAIT_TIMEOUT"
# a shell script that acts as an app server and always asks
ENGINE = """#!/bin/sh
[ "$1" = --version ] && echo "codex-cli 0.169.0" && exit
case "$*" in *--help*) echo "SESSION_ID PROMPT"; exit;; esac
put() { printf '%s\\n' "$1"; }
while read -r line; do
    id=${line#*\\"id\\":}; id=${id%%,*}
    case "$line" in
    *\\"initialize\\"*) put '{"id":'"$id"',"result":{}}';;
    *\\"thread/start\\"*)
        put '{"id":'"$id"',"result":{"thread":{"id":"t-1"},"approvalPolicy":"untrusted",
"approvalsReviewer":"user","sandbox":{"type":"readOnly"}}}' | tr -d '\\n'; echo;;
    *\\"turn/start\\"*)
        put '{"id":'"$id"',"result":{}}'
        put '{"method":"item/completed","params":{"threadId":"t-1","item":{"type":"agentMessage","text":"ASK"}}}'
        put '{"method":"turn/completed","params":{"threadId":"t-1","turn":{"status":"completed"}}}';;
    esac
done
"""


@dataclass(frozen=True, slots=True)
class Load:
    """How many runs wait at once, and for how many seconds each."""

    runs: int
    seconds: int


@dataclass(frozen=True, slots=True)
class Held:
    """The server's resources: child processes, threads, file descriptors, slots."""

    processes: int
    threads: int
    files: int
    slots: int

    @classmethod
    def by(cls, served: Served) -> "Held":
        """Return the current counts."""
        return cls(served.children, served.threads, served.files, int(served.metric("turngate_slots_held")))

    def leaks(self, before: "Held", runs: int) -> bool:
        """Tell whether the runs left something: a process, a slot, or a thread or file each.

        The server may start a few threads of its own, and open a few files, only once it needs them.
        """
        grown = max(self.threads - before.threads, self.files - before.files)
        return self.processes > before.processes or self.slots > before.slots or grown >= runs


def bench(*, short: bool) -> Iterator[Measured]:
    """Measure how late the runs fail; RuntimeError if they leave resources, or if an error code differs."""
    load = Load(RUNS.of(short=short), SECONDS.of(short=short))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        env = make_home(folder)
        (folder / "bin" / "codex").write_text(ENGINE.replace("ASK", json.dumps(ASK)[1:-1]))
        with serving(folder / "data", env, "--slots", str(load.runs)) as served:
            yield _measure(served, load, folder / "data" / "turngate.db")


def _measure(served: Served, load: Load, file: Path) -> Measured:
    for run_id in _waiting(served, load, file):  # a warm-up, which creates what the server keeps
        served.ask("POST", f"/v1/runs/{run_id}/cancel", {})
    _settled(served, lambda: _count(file, "state = 'canceled'") == load.runs and Held.by(served).slots == 0)
    before = Held.by(served)
    start = time.perf_counter()
    _waiting(served, load, file)
    took = time.perf_counter() - start
    during, cpu = Held.by(served), _cpu(served)
    seen = _watch(load, file)
    idle = _cpu(served) - cpu
    late = [at - datetime.fromisoformat(deadline).timestamp() for deadline, at in seen.values()]
    _settled(served, lambda: not Held.by(served).leaks(before, load.runs))
    after = Held.by(served)
    codes = _count(file, f"json_extract(error_json, '$.code') = '{ENDED}'")
    print(f"  {load.runs} runs wait at once after {took:.1f} s: {during}; {idle:.1f} CPU s until all had ended")
    print(f"  {codes} times {ENDED} (aim: {load.runs}); before {before}, after {after}")
    if codes != load.runs or during.slots != load.runs or min(late) < 0 or after.leaks(before, load.runs):
        raise RuntimeError("runs ended otherwise than at their deadlines, or left something")
    return measured("sticky", [max(late) * 1000])


def _waiting(served: Served, load: Load, file: Path) -> list[str]:
    """Create the runs, and return when all of them wait."""
    request = {
        "engine": "codex",
        "prompt": "hello",
        "execution_mode": "interactive",
        "interactive_profile": "sticky_process",
        "session_timeout_sec": load.seconds,
    }
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: str(served.ask("POST", "/v1/runs", request)[1]["run_id"]), range(load.runs)))
    _settled(served, lambda: _count(file, "state IN ('queued', 'running')") == 0)
    if (waiting := _count(file, "state = 'waiting_user'")) != load.runs:
        raise RuntimeError(f"{waiting} of {load.runs} runs wait")
    return made


def _watch(load: Load, file: Path) -> dict[str, tuple[str, float]]:
    """Return the deadline of each waiting run, and when its failure was first seen in the store."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as store:
        waiting = dict(store.execute("SELECT run_id, wait_deadline_at FROM runs WHERE state = 'waiting_user'"))
        seen: dict[str, tuple[str, float]] = {}
        end = time.monotonic() + load.seconds + PATIENCE
        while len(seen) < len(waiting) and time.monotonic() < end:
            failed = store.execute("SELECT run_id FROM runs WHERE state = 'failed'").fetchall()
            now = time.time()
            seen |= {run_id: (waiting[run_id], now) for (run_id,) in failed if run_id not in seen}
            time.sleep(LOOK)
    return seen


def _settled(served: Served, done: Callable[[], bool]) -> None:
    """Wait until a condition holds, or the time is up."""
    end = time.monotonic() + PATIENCE
    while not done() and time.monotonic() < end and served.process.poll() is None:
        time.sleep(0.1)


def _count(file: Path, where: str) -> int:
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as store:
        return int(store.execute(f"SELECT count(*) FROM runs WHERE {where}").fetchone()[0])


def _cpu(served: Served) -> float:
    return float(sum(psutil.Process(served.process.pid).cpu_times()[:2]))
