"""Helpers for a server whose Codex is a fake sticky process."""

import threading
from typing import Any, Self

import psutil

from tests.fakes.executables import simulated
from tests.patience import PATIENCE
from tests.reference.server_env import ServerEnv
from turngate.contract import load
from turngate_reference.server.transports.host import ProcessHost


def put_engine(server_env: ServerEnv) -> None:
    """Put the sticky codex on PATH."""
    simulated(load.contract("codex").at("0.169.0"), server_env.cli_env.path / "codex")


def create(server_env: ServerEnv, do: str, mode: str = "interactive", **more: Any) -> str:
    """Create a sticky run whose agent does this; return its id."""
    return server_env.create(f"do: {do}", execution_mode=mode, interactive_profile="sticky_process", **more)


def pid_of(server_env: ServerEnv, run_id: str) -> int:
    """Return the process id of a run, once it is known."""
    store = server_env.server.store

    def known() -> int | None:
        process = server_env.run(run_id).process
        return process.pid if process else None

    with store._changed:
        pid = store._changed.wait_for(known, PATIENCE)
    assert pid
    return pid


def move_deadlines(server_env: ServerEnv, seconds: float) -> None:
    """Let the present deadlines of sticky runs come this much earlier, instead of waiting for them."""
    moved = threading.Event()

    def move() -> None:
        for live in server_env.server.owner._live.values():
            live.due -= seconds
        moved.set()

    server_env.server.owner._happened.put(move)
    assert moved.wait(PATIENCE)


def slots_are_free(server_env: ServerEnv) -> bool:
    """Wait until no slot is in use."""
    owner, freed = server_env.server.owner, threading.Event()
    check = owner._check_queue

    def look() -> None:
        if not owner.held:
            freed.set()

    def checked() -> None:
        check()
        look()

    owner._check_queue = checked  # type: ignore[method-assign]
    owner.post(look)
    return freed.wait(PATIENCE)


def is_running(pid: int) -> bool:
    """Whether a process exists and has not exited."""
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


class HeldEnd:
    """Ends no process of a host before the end of the block; `asked` is set once one should end."""

    def __init__(self, host: ProcessHost) -> None:
        self._end, self._held, self._lock = host.end, list[str](), threading.Lock()
        self.asked, self._goes = threading.Event(), False
        host.end = self.end  # type: ignore[method-assign]

    def __enter__(self) -> Self:
        """Hold back."""
        return self

    def __exit__(self, *_: object) -> None:
        """End what was held back, and from now on all at once."""
        with self._lock:
            self._goes = True
            while self._held:
                self._end(self._held.pop())

    def end(self, run_id: str) -> None:
        """End a process, or hold that back."""
        with self._lock:
            if self._goes:
                self._end(run_id)
            else:
                self._held.append(run_id)
        self.asked.set()
