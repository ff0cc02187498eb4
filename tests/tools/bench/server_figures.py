"""What the reference server adds to its engines, and what waiting runs cost."""

import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

from msgspec import structs

from tests.tools.bench.form import Tally
from tests.tools.bench.rows import Measure, Measured, Row, Target, measured
from tests.tools.bench.served import CREATE, Served, make_home, reply, serving
from turngate_reference.server.store import runs
from turngate_reference.server.store.database import Store
from turngate_reference.states import Cause, State

RUNS = Tally(full=20, short=2)
MANY, FEW = Tally(full=10_000, short=50), 10
READS = Tally(full=300, short=10)
REPLIES, COPIES = Tally(full=200, short=5), 3
PROMPT = "Look at every page of the book, and say what is wrong with it. " * 80
SESSION = "01a20033-ee25-73a3-a8df-8b64e97dac81"
TURN, MEMORY, READ, RESTART, REPLIED = ROWS = (
    Row(
        "server.turn",
        "A turn of a trivial engine through the server",
        "ms",
        "a shell loop",
        Target(25, Measure.ADDED),
    ),
    Row("server.memory", "Memory of a waiting run, of 10,000", "B", target=Target(1000)),
    Row("server.read", "`GET` of one of 10,000 waiting runs", "ms", "one of 10", Target(1.5, Measure.RATIO)),
    Row("server.restart", "Restart with 10,000 waiting runs", "s", "with 10", Target(2)),
    Row("server.replies", "200 runs, each answered three times at once, are resumed once each", "s"),
)


def bench(*, short: bool) -> Iterator[Measured]:
    """Measure what a turn costs through the server, what waiting runs cost, and how fast replies are answered."""
    for part in (_added, _waiting, _replies):
        with tempfile.TemporaryDirectory() as folder:
            yield from part(Path(folder), short=short)


def _added(folder: Path, *, short: bool) -> Iterator[Measured]:
    """Compare two turns on the server with the same two calls in a shell loop."""
    env, count = make_home(folder), RUNS.of(short=short)
    loop = f"codex exec - < /dev/null; codex exec resume {SESSION} - < /dev/null"
    direct, served_times = [], []
    with serving(folder / "data", env) as served:
        for number in range(count + 1):
            start = time.perf_counter()
            subprocess.run(["/bin/sh", "-c", loop], env=env, check=True, capture_output=True)
            middle = time.perf_counter()
            _two_turns(served)
            if number:  # the first one is a warm-up
                direct.append(middle - start)
                served_times.append(time.perf_counter() - middle)
    yield measured(TURN.name, *([both * 500 for both in times] for times in (served_times, direct)))


def _two_turns(served: Served) -> None:
    _, run = served.ask("POST", "/v1/runs", CREATE)
    served.until(run["run_id"], "waiting_user")
    reply(served, run["run_id"])
    served.until(run["run_id"], "succeeded")


def _waiting(folder: Path, *, short: bool) -> Iterator[Measured]:
    """Compare a server with many waiting runs with one that has ten."""
    figures, many = {}, MANY.of(short=short)
    for count in (FEW, many):
        home = folder / str(count)
        home.mkdir()
        env = make_home(home)
        with serving(home / "data", env) as served:
            _, run = served.ask("POST", "/v1/runs", CREATE)
            served.until(run["run_id"], "waiting_user")
        _fill(home / "data" / "turngate.db", count)
        with serving(home / "data", env) as served:
            children = served.children
            taken: list[float] = []
            for number in range(READS.of(short=short)):
                path = f"/v1/runs/filled-{number * 7919 % count:08}"
                start = time.perf_counter()
                status, _ = served.ask("GET", path)
                taken.append((time.perf_counter() - start) * 1000)
                if status != 200:
                    raise RuntimeError(f"GET {path}: {status}")
            figures[count] = (served.seconds, served.memory, served.threads, children, taken)
    (few_ready, few_bytes, few_threads, _, few_get), (ready, many_bytes, threads, children, get) = figures.values()
    per_run = (many_bytes - few_bytes) / (many - FEW)
    print(f"  {many} waiting runs: {children} processes, {threads - few_threads:+d} threads")
    yield measured(MEMORY.name, [per_run])
    yield measured(READ.name, get, few_get)
    yield measured(RESTART.name, [ready], [few_ready])


def _fill(file: Path, count: int) -> None:
    """Add waiting runs like the existing one."""
    store = Store(file)
    (like,) = runs.in_state(store, State.WAITING_USER)
    with store.writing() as connection:
        for number in range(count):
            run_id = f"filled-{number:08}"
            launch = structs.replace(like.launch, prompt=PROMPT)
            runs.insert(connection, f"{number:08}", like.run_directory / run_id, launch)
            settled: dict[str, Any] = {
                "profile": like.profile,
                "session": like.session,
                "turn_index": 1,
                "engine_version": "0.169.0",
            }
            runs.transition(connection, run_id, State.QUEUED, Cause.CLAIMED, **settled)
            runs.transition(connection, run_id, State.RUNNING, Cause.ASKED, pending_interaction_id=f"q-{number}")
    store.close()


def _replies(folder: Path, *, short: bool) -> Iterator[Measured]:
    """Send each of many runs its reply three times at once; RuntimeError unless each run is resumed once."""
    env, count = make_home(folder), REPLIES.of(short=short)
    with serving(folder / "data", env, "--slots", "8") as served, ThreadPoolExecutor(count) as pool:
        made = [served.ask("POST", "/v1/runs", CREATE)[1]["run_id"] for _ in range(count)]
        for run_id in made:
            served.until(run_id, "waiting_user")
        turns = (folder / "turns").read_text().count("turn")
        bodies = {}
        for run_id in made:
            _, asked = served.ask("GET", f"/v1/runs/{run_id}/interaction")
            bodies[run_id] = {"interaction_id": asked["pending"]["interaction_id"], "response": "red"}

        together = Barrier(count)

        def reply(run_id: str) -> int:
            path = f"/v1/runs/{run_id}/interaction/reply"
            together.wait()
            return served.ask("POST", path, bodies[run_id], **{"Idempotency-Key": run_id})[0]

        start = time.perf_counter()
        statuses = list(pool.map(reply, [run_id for run_id in made for _ in range(COPIES)]))
        answered = time.perf_counter() - start
        for run_id in made:
            served.until(run_id, "succeeded")
        seconds = time.perf_counter() - start
    resumes = (folder / "turns").read_text().count("turn") - turns
    if (resumes, statuses.count(202)) != (count, len(statuses)):
        raise RuntimeError(f"{count} replies made {resumes} resumes, and were answered {Counter(statuses)}")
    print(f"  answered {statuses.count(202)} times 202 in {answered:.2f} s")
    yield measured(REPLIED.name, [seconds])
