"""The worker of a host: it runs the turns of the queue of new runs, and those of sessions that lie on this host.

No turn is repeated. `claim` records which life of the worker begins a turn, before the engine starts. If the worker is
killed, DBOS runs the workflow again when the worker is back. Then `claim` returns the earlier life, and `play` fails
the turn instead of playing it, because the engine may have acted. If the worker was killed after the output of `play`
had been recorded, DBOS returns that output. If it was killed before `claim`, the turn begins only now.
"""

import signal
import threading
import time
import uuid
from contextlib import suppress
from pathlib import Path

import msgspec
import psycopg
from dbos import DBOS

from turngate import (
    AdapterTurnResult,
    Outcome,
    Stop,
    TurngateError,
    TurnInput,
    TurnOutput,
    UsageError,
    end_tagged,
    play_turn,
)
from turngate_fleet.runs import NEW, POLL, VERSION, Fleet, queue_of

LIFE = uuid.uuid4().hex
LOOK = 0.5  # seconds between two looks for canceled turns
LEAVE = 5  # seconds in which turns may end when the worker stops; what is left is interrupted
PLAYING: dict[str, Stop] = {}


def work(url: str, host: str, slots: int, root: Path, *, gone: bool = False) -> None:
    """Work until SIGTERM or SIGINT; with `gone`, only end the runs of a host that will not come back.

    `slots` is the number of first turns at once, and of later ones. Workspaces are below `root` unless they are
    absolute. UsageError: a worker of this name is running.
    """
    leaving = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: leaving.set())
    with psycopg.connect(url, autocommit=True) as lock:
        # the database drops the lock with the connection, so a worker that was killed can start again at once
        taken = lock.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", (f"worker {host}",)).fetchone()
        if taken != (True,):
            raise UsageError(f"a worker named {host} is running")
        fleet = Fleet(url)
        fleet.register(host, slots)
        begun = fleet.begun(host)
        if not gone:
            end_tagged(begun)
        fleet.take_back(host, begun)  # DBOS would put first turns into the queue of all hosts
        _register(host, root, gone=gone)
        DBOS(
            config={
                "name": "turngate-fleet",
                "system_database_url": url,
                "executor_id": host,
                "application_version": VERSION,
                "log_level": "WARNING",
            }
        )
        DBOS.listen_queues([queue_of(host)] if gone else [NEW, queue_of(host)])
        DBOS.launch()
        if gone:
            _end_runs(fleet, host)
        try:
            left = gone
            while not left:
                left = leaving.wait(LOOK)
                lock.execute("SELECT")  # raises if the connection, and with it the lock, is lost
                for turn in fleet.canceled(PLAYING) if PLAYING else ():
                    PLAYING.get(turn, Stop()).set()
        finally:
            DBOS.destroy(workflow_completion_timeout_sec=LEAVE if PLAYING else 0)
            for stop in [*PLAYING.values()]:
                stop.set()


def _register(host: str, root: Path, *, gone: bool) -> None:
    """Define the workflow of a turn."""

    @DBOS.step()
    def claim() -> str:
        return LIFE

    @DBOS.step()
    def play(order: str, life: str) -> str:
        if gone:
            return _failed("SESSION_RESUME_FAILED", f"the host {host}, which has the session, is gone")
        if life != LIFE:
            return _failed("ORCHESTRATOR_RESTART_INTERRUPTED", "the worker was stopped or killed during the turn")
        turn, tag = TurnInput.from_json(order), DBOS.workflow_id or ""
        workspace = root / turn.workspace
        stop = PLAYING[tag] = Stop()
        try:
            workspace.mkdir(parents=True, exist_ok=True)
            return play_turn(msgspec.structs.replace(turn, workspace=str(workspace)), stop=stop, tag=tag).to_json()
        except (TurngateError, OSError) as error:
            return _failed("SESSION_RESUME_FAILED" if turn.session else "ENGINE_FAILED", str(error))
        finally:
            del PLAYING[tag]

    @DBOS.workflow(name="turn")
    def _turn(order: str) -> str:
        return play(order, claim())


def _failed(code: str, why: str) -> str:
    return TurnOutput(AdapterTurnResult(Outcome.ERROR, failure_reason=f"{code}: {why}")).to_json()


def _end_runs(fleet: Fleet, host: str) -> None:
    """Play a last turn of each run whose session is on a host, which fails it, and wait until all have ended."""
    for run in fleet.on_host(host):
        if run.state == "waiting_user":
            with suppress(UsageError):  # a reply came first, and is in the queue
                fleet.reply(run, "")
    while not fleet.is_free(host):
        time.sleep(POLL)
