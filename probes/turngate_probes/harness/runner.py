"""Runs cases on a real engine, each in its own sandbox and thread, with a limit on parallel engines."""

import heapq
import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from turngate import EngineContract, TurngateError
from turngate.contract import load
from turngate.sanitize import redact
from turngate_probes.harness.cases import Case
from turngate_probes.harness.driver import EngineDriver
from turngate_probes.harness.first_turn import FirstTurn
from turngate_probes.harness.interrupt import CaseStoppedError, Interrupt
from turngate_probes.harness.observations import CaseEnd, Observation, unknown_requests
from turngate_probes.harness.sandbox import Sandbox, claimed, sandbox, sweep
from turngate_probes.stub_model import refused_port


class Slots:
    """A counting semaphore that serves its waiters by priority (lower first), then in order of arrival."""

    def __init__(self, count: int) -> None:
        """Offer `count` slots."""
        self._free, self._lock = count, threading.Lock()
        self._waiting: list[tuple[int, int, threading.Event]] = []
        self._arrivals = itertools.count()

    @contextmanager
    def held(self, priority: int) -> Iterator[None]:
        """Hold a slot while the block runs, waiting for one first."""
        turn = threading.Event()
        with self._lock:
            heapq.heappush(self._waiting, (priority, next(self._arrivals), turn))
            self._serve()
        turn.wait()
        try:
            yield
        finally:
            with self._lock:
                self._free += 1
                self._serve()

    def _serve(self) -> None:
        while self._free and self._waiting:
            self._free -= 1
            heapq.heappop(self._waiting)[2].set()


WAITING_PER_JOB = 4


class Observer(Protocol):
    """Gets the observations of cases, from many threads."""

    def saw(self, item: Observation, box: Sandbox) -> None:
        """Take an observation."""

    def ended(self, end: CaseEnd) -> None:
        """Take the end of a case."""


@dataclass(frozen=True, slots=True)
class CaseRunner:
    """What cases share: `busy` slots limit engines that work, `waiting` slots those that mostly sleep.

    With `account`, the user's own environment, engines run in that.
    """

    sandboxes: Path
    keep: bool
    interrupt: Interrupt
    busy: Slots
    waiting: Slots
    account: Mapping[str, str] | None = None

    @classmethod
    def of(
        cls, sandboxes: Path, jobs: int, interrupt: Interrupt, *, keep: bool = False, waiting: int | None = None,
        account: Mapping[str, str] | None = None,
    ) -> "CaseRunner":  # fmt: skip
        """Make a runner on which `jobs` engines work at once, and `waiting` ones sleep (None: a multiple of `jobs`).

        Sandboxes that killed runs left behind are removed, unless sandboxes are kept.
        """
        if not keep:
            sweep(sandboxes)
        load.prepare()  # here, because cases read contracts and the catalogue on many threads
        return cls(sandboxes, keep, interrupt, Slots(jobs), Slots(waiting or jobs * WAITING_PER_JOB), account)

    def play(self, contract: EngineContract, executable: Path, cases: Sequence[Case], observer: Observer) -> None:
        """Run all cases in parallel, earlier ones first when slots are short; return when all have ended.

        If a case opens the others, they wait for its first request, and don't run without one.
        """
        first = FirstTurn()
        if not any(case.opens for case in cases):
            first.tell(None)

        def play_one(priority: int, case: Case) -> None:
            try:
                self._play(contract, executable, case, priority, observer, first, shared)
            finally:
                if case.opens:  # whatever else stopped it stops the others too
                    first.tell(None)

        with (
            claimed(self.sandboxes, "shared-") as shared,
            ThreadPoolExecutor(max(1, len(cases)), thread_name_prefix="case") as pool,
        ):
            for outcome in [pool.submit(play_one, i, case) for i, case in enumerate(cases)]:
                outcome.result()

    def _play(
        self, contract: EngineContract, executable: Path, case: Case, priority: int, observer: Observer,
        first: FirstTurn, shared: Path,
    ) -> None:  # fmt: skip
        slots = self.waiting if case.waits else self.busy
        why, hosts, unknown = None, frozenset[str](), frozenset[str]()
        try:
            if not case.opens:
                first.check(case.level)
            with self._sandbox(contract, case, shared) as box:
                driver = EngineDriver(
                    case.name, contract, executable, box,
                    slot=lambda: slots.held(priority), interrupt=self.interrupt,
                    note=lambda item: observer.saw(item, box), first=first if case.opens else None,
                )  # fmt: skip
                try:
                    case.play(driver)
                finally:
                    hosts = frozenset(redact(tried.host) for tried in box.backend.egress())
                    unknown = frozenset(map(redact, unknown_requests(box.backend.exchanges())))
        except (CaseStoppedError, TurngateError) as stopped:
            why = self.interrupt.why(stopped)
        observer.ended(CaseEnd(case.name, why, hosts, unknown))

    @contextmanager
    def _sandbox(self, contract: EngineContract, case: Case, shared: Path) -> Iterator[Sandbox]:
        name = f"{contract.engine}@{contract.version}"
        parent = self.sandboxes / name if self.keep else self.sandboxes
        with refused_port() if case.backend_away else nullcontext() as port:
            url = None if port is None else f"http://127.0.0.1:{port}"
            with sandbox(
                contract.hermetic, parent, case.name,
                keep=self.keep, model_url=url, shared=shared, account=self.account,
            ) as box:  # fmt: skip
                yield box
