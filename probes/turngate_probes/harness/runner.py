"""Runs cases on a real engine, each in its own sandbox and thread, with a limit on parallel engines."""

import heapq
import itertools
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field

from turngate import EngineContract, TurngateError
from turngate.sanitize import redact
from turngate_probes.harness.cases import Case
from turngate_probes.harness.driver import EngineDriver, Startups
from turngate_probes.harness.first_turn import FirstTurn
from turngate_probes.harness.interrupt import CaseStoppedError, Interrupt
from turngate_probes.harness.observations import CaseEnd, Observation, unknown_requests
from turngate_probes.harness.registry_hosts import is_registry
from turngate_probes.harness.resource_usage import waiting_for
from turngate_probes.harness.sandbox import Sandbox, claimed, sandbox, sweep
from turngate_probes.stub_model import refused_port

FIRST = -1  # the priority of a release's first turn


class Slots:
    """A counting semaphore that serves its waiters by priority (lower first), then in order of arrival."""

    def __init__(self, count: int) -> None:
        """Offer `count` slots."""
        self._free, self._lock = count, threading.Lock()
        self._waiting: list[tuple[int, int, threading.Event]] = []
        self._arrivals = itertools.count()

    @contextmanager
    def held(self, priority: int) -> Iterator[Callable[[], None]]:
        """Hold a slot while the block runs, waiting for one first; calling what it yields frees the slot early."""
        turn = threading.Event()
        with self._lock:
            heapq.heappush(self._waiting, (priority, next(self._arrivals), turn))
            self._serve()
        turn.wait()
        held = [turn]

        def free() -> None:
            with self._lock:
                self._free += len(held)
                held.clear()
                self._serve()

        try:
            yield free
        finally:
            free()

    def _serve(self) -> None:
        while self._free and self._waiting:
            self._free -= 1
            heapq.heappop(self._waiting)[2].set()


class Observer(Protocol):
    """Gets the observations of cases, from many threads."""

    def saw(self, item: Observation, box: Sandbox) -> None:
        """Take an observation."""

    def ended(self, end: CaseEnd) -> None:
        """Take the end of a case."""


class CaseRunner(Struct, frozen=True):
    """What cases share: `busy` slots limit engines that work, `waiting` slots those of cases that mostly sleep.

    The latter need a busy slot too, but free it as soon as their engine only waits. With `account`, the user's own
    environment, engines run in that. `server` is the command of a server to test instead of the reference server.
    """

    sandboxes: Path
    keep: bool
    interrupt: Interrupt
    busy: Slots
    waiting: Slots
    account: Mapping[str, str] | None = None
    server: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        sandboxes: Path,
        jobs: int,
        interrupt: Interrupt,
        *,
        keep: bool = False,
        account: Mapping[str, str] | None = None,
    ) -> "CaseRunner":
        """Make a runner on which `jobs` engines work at once; how many wait depends on cores and memory.

        Sandboxes that killed runs left behind are removed, unless sandboxes are kept.
        """
        if not keep:
            sweep(sandboxes)
        return cls(sandboxes, keep, interrupt, Slots(jobs), Slots(waiting_for(os.cpu_count() or 1)), account)

    def play(self, contract: EngineContract, executable: Path, cases: Sequence[Case], observer: Observer) -> None:
        """Run all cases in parallel; return when all have ended.

        Cases that wait start first. When slots are short, they come before others, and earlier cases before later ones.
        If a case opens the others, they wait for its first request, and don't run without one. Of several releases that
        share the slots, each makes its first turn before any goes on, so that the long waits of all overlap.
        """
        asked = {case.name: threading.Event() for case in cases if case.waits}
        with (
            claimed(self.sandboxes, "shared-") as shared,
            ThreadPoolExecutor(max(1, len(cases)), thread_name_prefix="case") as pool,
        ):
            release = _Release(contract, executable, observer, shared, asked)
            if not any(case.opens for case in cases):
                release.first.tell(None)

            def play_one(priority: int, case: Case) -> None:
                try:
                    self._play(release, case, priority)
                finally:
                    release.has_asked(case)
                    if case.opens:  # whatever else stopped it stops the others too
                        release.first.tell(None)

            by_priority = sorted(cases, key=lambda case: not case.waits)
            for outcome in [pool.submit(play_one, i, case) for i, case in enumerate(by_priority)]:
                outcome.result()

    def _play(self, release: "_Release", case: Case, priority: int) -> None:
        why, hosts, unknown, registries = None, frozenset[str](), frozenset[str](), frozenset[str]()
        try:
            if not case.opens:
                release.await_turn(case)
            with self._sandbox(release.contract, case, release.shared) as box:
                driver = EngineDriver(
                    case.name,
                    release.contract,
                    release.executable,
                    box,
                    slot=lambda: self._slot(release, case, priority),
                    interrupt=self.interrupt,
                    note=lambda item: release.observer.saw(item, box),
                    first=release.first if case.opens else None,
                    startups=release.startups,
                    server=self.server,
                )
                try:
                    case.play(driver)
                finally:
                    tried = {attempt.host for attempt in box.backend.egress()}
                    hosts = frozenset(map(redact, tried))
                    listed = release.contract.hermetic.egress
                    registries = frozenset(map(redact, filter(is_registry, tried.difference(listed))))
                    requested = box.backend.exchanges() if box.backend.counts_egress else ()
                    unknown = frozenset(map(redact, unknown_requests(requested)))
        except (CaseStoppedError, TurngateError) as stopped:
            why = self.interrupt.why(stopped)
        release.observer.ended(CaseEnd(case.name, why, hosts, unknown, registries))

    @contextmanager
    def _slot(self, release: "_Release", case: Case, priority: int) -> Iterator[Callable[[], None]]:
        release.has_asked(case)
        if case.opens and not release.first.is_known:
            priority = FIRST
        with self.waiting.held(priority) if case.waits else nullcontext(), self.busy.held(priority) as free:
            yield free

    @contextmanager
    def _sandbox(self, contract: EngineContract, case: Case, shared: Path) -> Iterator[Sandbox]:
        name = f"{contract.engine}@{contract.version}"
        parent = self.sandboxes / name if self.keep else self.sandboxes
        with refused_port() if case.backend_away else nullcontext() as port:
            url = None if port is None else f"http://127.0.0.1:{port}"
            with sandbox(
                contract.hermetic, parent, case.name, keep=self.keep, model_url=url, shared=shared, account=self.account
            ) as box:
                yield box


class _Release(Struct, frozen=True):
    """What the cases of one release share; `asked` are set when a case that waits has asked for its first slot."""

    contract: EngineContract
    executable: Path
    observer: Observer
    shared: Path
    asked: Mapping[str, threading.Event]
    first: FirstTurn = field(default_factory=FirstTurn)
    startups: Startups = field(default_factory=Startups)

    def await_turn(self, case: Case) -> None:
        """Wait for the first turn and, unless the case waits itself, for those that do; CaseStoppedError as there."""
        self.first.check(case.level)
        for event in () if case.waits else self.asked.values():
            event.wait()

    def has_asked(self, case: Case) -> None:
        """Take that a case has asked for a slot, or ended."""
        if case.waits:
            self.asked[case.name].set()
