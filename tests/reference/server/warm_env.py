"""A server whose engine is simulated, with a stub model, and what its runs with a warm wait do."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import psutil
from msgspec.structs import replace

from tests.patience import PATIENCE
from tests.probes.simulate.played import at_known_release, install_quick
from tests.reference.server.sticky_env import pid_of
from tests.reference.server_env import ASK, ServerEnv, final
from turngate import EngineContract
from turngate_probes.harness.sandbox import Sandbox, sandbox
from turngate_probes.stub_model import StubRule, Text
from turngate_reference.server.store import runs
from turngate_reference.server.store.events import DeliveryEvent
from turngate_reference.server.store.runs import Run, StoredQuestion
from turngate_reference.server.transports.host import ProcessHost
from turngate_reference.states import Delivery

ANSWER = final(done=True)
ENDS = "that is all"
LIVING, NEW = Delivery.LIVING_PROCESS, Delivery.NEW_PROCESS


@dataclass
class WarmEnv:
    """A server environment whose model asks at every prompt, except at one with `ENDS`."""

    server_env: ServerEnv
    engine: str
    box: Sandbox

    def ask(self, seconds: int = 600, **more: Any) -> tuple[str, StoredQuestion]:
        """Create a run that keeps its process, and wait for its question."""
        wait = {"warm_wait_sec": seconds} if seconds else {}
        return self.server_env.ask(engine=self.engine, **wait, **more)

    def reply(self, run_id: str, response: str = "red") -> None:
        """Reply to the open question."""
        self.server_env.reply(run_id, self.server_env.question(run_id), response)

    def turn(self, run_id: str, response: str = "red") -> Run:
        """Reply, and wait until the turn has ended with another question."""
        before = self.server_env.run(run_id).turn_index
        self.reply(run_id, response)
        self.until(run_id, lambda run: run.turn_index > before and run.pending_interaction_id is not None)
        return self.server_env.run(run_id)

    def until(self, run_id: str, holds: Any) -> None:
        """Wait until something holds of a run."""
        store = self.server_env.server.store
        with store._changed:
            assert store._changed.wait_for(lambda: holds(self.server_env.run(run_id)), PATIENCE)

    def deliveries(self, run_id: str) -> list[str]:
        """List how the turns of a run were delivered."""
        return deliveries(self.server_env, run_id)

    def pid(self, run_id: str) -> int:
        """Return the id of the process that a waiting run has kept."""
        return pid_of(self.server_env, run_id)

    def until_cold(self, run_id: str) -> None:
        """Wait until a run has no process any more."""
        self.until(run_id, lambda run: run.process is None)
        assert not self.server_env.server.kept.has_process(run_id)

    def last_request(self) -> str:
        """Return the last request to the model."""
        return self.box.backend.exchanges()[-1].body.decode()


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


@contextmanager
def warm_env(
    server_env: ServerEnv, engine: str = "codex", *, real: tuple[EngineContract, Path] | None = None, **settings: Any
) -> Iterator[WarmEnv]:
    """Open a server with a simulated engine of this name, or with a `real` one."""
    contract = real[0] if real else at_known_release(engine)
    if real:
        (server_env.cli_env.path / contract.executable).symlink_to(real[1])
    else:
        install_quick(contract, server_env.cli_env.path)
    with sandbox(contract.hermetic, server_env.cli_env.root, "box", keep=False) as box:
        box.backend.script(StubRule(Text(ANSWER), contains=ENDS), StubRule(Text(ASK)))
        env = {
            **server_env.settings.env,
            **box.env(contract.hermetic, box.work),
            "PATH": server_env.settings.env["PATH"],
        }
        server_env.settings = replace(server_env.settings, env=env, pass_env=tuple(env))
        with server_env.opened(**settings):
            yield WarmEnv(server_env, engine, box)


def deliveries(server_env: ServerEnv, run_id: str) -> list[str]:
    """List how the turns of a run were delivered."""
    reported = runs.events(server_env.server.store, run_id, 0, 1000)
    return [event.data.delivery for event in reported if isinstance(event.data, DeliveryEvent)]


def is_running(pid: int) -> bool:
    """Whether a process exists and has not exited."""
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
