"""Running cases on fake engines with faults and without: each fault is caught by its clause."""

import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from msgspec import structs
from msgspec.structs import replace

from tests.probes import engines
from turngate.contract import load
from turngate.contract.clauses import Reason, Result
from turngate.contract.engine_contract import Deviation
from turngate.model import Ended
from turngate.process import execution
from turngate_probes.clauses.process import EVERYTHING
from turngate_probes.harness import cases, driver
from turngate_probes.harness.cases import CASES
from turngate_probes.harness.driver import EngineDriver
from turngate_probes.harness.interrupt import Interrupt, Obstacle
from turngate_probes.harness.runner import CaseRunner, Slots


@pytest.fixture(name="no_waiting", autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the wait for a later minute."""
    monkeypatch.setattr(EngineDriver, "until_later_minute", lambda *_: None)


def test_the_cases_of_a_probe_share_a_folder(tmp_path: Path) -> None:
    """All cases of a probe see the same shared folder, and it is gone afterwards."""
    folders = dict[str, Path]()

    def keep(driver: EngineDriver) -> None:
        (driver.sandbox.shared / driver.case).touch()
        folders[driver.case] = driver.sandbox.shared

    runner = CaseRunner.of(tmp_path / "sandboxes", 1, Interrupt())
    both = [cases.Case(name, keep, 0) for name in ("one", "two")]
    runner.play(load.load_contract("codex"), tmp_path / "engine", both, MagicMock())
    assert folders.keys() == {"one", "two"}
    assert len({*folders.values()}) == 1
    assert [*(tmp_path / "sandboxes").iterdir()] == []


@pytest.mark.long
def test_an_honest_engine_passes_every_clause(tmp_path: Path) -> None:
    """The honest fake engine passes every clause, except the one that needs its installed files."""
    played = engines.play(engines.install(tmp_path), tmp_path, *(case.name for case in CASES))
    results = played.judged(EVERYTHING)
    assert {name for name, result in results.items() if result.result is not Result.PASS} == {"executable.unchanged"}
    assert played.done == {case.name for case in CASES}
    assert played.observed.stopped == {}


FAULTS = {
    "renames-id": ("main", "handle.present"),
    "id-is-a-flag": ("main bad-handles auto", "handle.present"),
    "forgets-the-second": ("main", "resume.repeated"),
    "unknown": ("main bad-handles auto backend-401 backend-cut", "stream.known-events"),
    "prints-raw": ("main bad-handles auto imitation", "text.imitation"),
}


@pytest.mark.long
@pytest.mark.nightly
@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_fails_its_clause(fault: str, tmp_path: Path) -> None:
    """Each fault fails at least the clause that covers it; the drift corpus has those of the other clauses."""
    played, clause = FAULTS[fault]
    results = engines.play(engines.install(tmp_path, fault), tmp_path, *played.split()).judged(EVERYTHING)
    assert clause in engines.failing(results), results.get(clause)


@pytest.mark.long
def test_an_engine_that_fetches_a_plugin_has_a_symptom_of_its_own(tmp_path: Path) -> None:
    """A contacted package registry is told apart from other hosts, and a contract may declare it."""
    fetching, codex = engines.install(tmp_path, "fetches-a-plugin"), load.contract("codex").at("0.169.0")
    deviation = Deviation("network.loopback-only", "package-registry", "install the plugin beforehand")
    declared = structs.replace(codex, deviations=(*codex.deviations, deviation))
    failed, known = (
        engines.play(fetching, tmp_path, "auto", contract=contract).judged(EVERYTHING)["network.loopback-only"]
        for contract in (codex, declared)
    )
    assert (failed.result, known.result) == (Result.FAIL, Result.DEVIATES)
    assert re.match(r"tried to reach the package registry \S+; no model traffic: install", failed.detail)
    assert (failed.detail[-18:], known.action) == ("[package-registry]", "install the plugin beforehand")


@pytest.mark.long
def test_an_engine_that_stays_after_its_turns_fails_one_clause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that doesn't exit after its turns fails only `process.clean-exit`."""
    monkeypatch.setattr(execution, "EXIT_LIMIT", 0.3)
    played = engines.play(engines.install(tmp_path, "hang=after"), tmp_path, *(case.name for case in CASES))
    results = played.judged(EVERYTHING)
    assert engines.failing(results) == {"process.clean-exit"}
    assert "after its terminal event" in results["process.clean-exit"].detail
    assert {turn.ended for turn in played.observed.turns.values() if turn.name.startswith("main/")} == {Ended.LINGERED}


@pytest.mark.long
def test_an_engine_that_reads_open_stdin_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that waits for the end of stdin shows the deviation that the contract declares."""
    monkeypatch.setattr(driver, "STARTUP_ALLOWANCE", 1.0)
    monkeypatch.setattr(cases, "_deadline", lambda _: 1.0)
    results = engines.play(engines.install(tmp_path, "reads-stdin"), tmp_path, "stdin-open").judged()
    assert results["stdin.open"].result is Result.DEVIATES


def test_a_case_that_can_not_go_on_says_why(tmp_path: Path) -> None:
    """Without a session id the case stops, and the reason is recorded."""
    played = engines.play(engines.install(tmp_path, "renames-id"), tmp_path, "main")
    assert played.observed.stopped == {"main": Obstacle("the previous turn reported no session id", by_engine=True)}
    assert list(played.observed.turns) == ["main/first"]


def test_sandboxes_are_gone_afterwards(tmp_path: Path) -> None:
    """No sandbox stays on disk by default."""
    engines.play(engines.install(tmp_path), tmp_path, "auto")
    assert list((tmp_path / "sandboxes").iterdir()) == []


def test_an_executable_that_can_not_start_stops_each_case(tmp_path: Path) -> None:
    """An executable that can't be started stops each case with a reason, and no turn is recorded."""
    broken = tmp_path / "codex"
    broken.write_text("#!/nonexistent/interpreter\n")
    broken.chmod(0o755)
    played = engines.play(broken, tmp_path, "main", "auto")
    assert played.observed.turns == {}
    assert "check the interpreter" in played.observed.stopped["main"].text
    assert played.observed.stopped["main"].reason is Reason.MACHINE
    assert set(played.observed.stopped) == {"main", "auto"}


def test_an_interrupt_keeps_cases_from_starting(tmp_path: Path) -> None:
    """After an interrupt no engine is started, and every case is stopped as interrupted."""
    interrupt = Interrupt()
    interrupt.set()
    played = engines.play(engines.install(tmp_path), tmp_path, "main", "static", interrupt=interrupt)
    interrupted = Obstacle("interrupted", Reason.INTERRUPTED)
    assert played.observed.stopped == {"main": interrupted, "static": interrupted}
    assert played.observed.turns == {}


def test_a_crash_of_a_case_is_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected exception is raised, not recorded as the end of a case."""

    def crash(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(EngineDriver, "page", crash)
    with pytest.raises(ZeroDivisionError):
        engines.play(engines.install(tmp_path), tmp_path, "static")


class Queue:
    """Threads that each wait for the only slot, in a known order."""

    def __init__(self, slots: Slots) -> None:
        self.slots, self.served = slots, list[str]()
        self.threads: list[threading.Thread] = []

    def ask(self, name: str, priority: int) -> None:
        """Start a thread that waits for a slot; return once it is in the queue."""
        waiting = len(self.slots._waiting)
        thread = threading.Thread(target=self._hold, args=(name, priority))
        self.threads.append(thread)
        thread.start()
        while len(self.slots._waiting) == waiting:
            thread.join(0.001)

    def _hold(self, name: str, priority: int) -> None:
        with self.slots.held(priority):
            self.served.append(name)

    def join(self) -> None:
        """Wait until all threads were served."""
        for thread in self.threads:
            thread.join()


def test_waits_overlap_and_start_first(tmp_path: Path) -> None:
    """With one job, all cases that wait do so at the same time; they come before the others when slots are short."""
    together, order = threading.Barrier(2), dict[str, int]()

    class Order(Slots):
        @contextmanager
        def held(self, priority: int) -> Iterator[Callable[[], None]]:
            order[threading.current_thread().name] = priority
            with super().held(priority) as free:
                yield free

    def play(driver: EngineDriver) -> None:
        threading.current_thread().name = driver.case
        with driver.slot() as free_slot:
            if driver.case != "work":
                free_slot()
                together.wait(60)

    runner = replace(CaseRunner.of(tmp_path, 1, Interrupt()), busy=Order(1))
    chosen = [cases.Case(name, play, 0, waits=name != "work") for name in ("work", "one", "two")]
    runner.play(load.load_contract("codex"), tmp_path / "engine", chosen, MagicMock())
    assert order == {"one": 0, "two": 1, "work": 2}


def test_the_first_turn_of_a_release_goes_before_all_others(tmp_path: Path) -> None:
    """It goes before cases that wait, which may be those of another release; the next turns of its case don't."""
    order: list[int] = []

    class Order(Slots):
        @contextmanager
        def held(self, priority: int) -> Iterator[Callable[[], None]]:
            order.append(priority)
            with super().held(priority) as free:
                yield free

    def play(driver: EngineDriver) -> None:
        with driver.slot():
            pass
        if driver.first:
            driver.first.tell(None)
            with driver.slot():
                pass

    runner = replace(CaseRunner.of(tmp_path, 1, Interrupt()), busy=Order(1))
    chosen = [cases.Case("waits", play, 0, waits=True), cases.Case("opens", play, 0, opens=True)]
    runner.play(load.load_contract("codex"), tmp_path / "engine", chosen, MagicMock())
    assert order[0] < 0
    assert sorted(order[1:]) == [0, 1]


def test_other_cases_start_when_those_that_wait_have_asked_for_a_slot(tmp_path: Path) -> None:
    """A case starts only after all cases that wait have asked for their slots, or have ended without one."""
    started = threading.Event()

    def wait(driver: EngineDriver) -> None:
        assert not started.wait(0.05)
        if driver.case == "without":
            return
        with driver.slot():
            assert started.wait(60)

    runner = CaseRunner.of(tmp_path, 2, Interrupt())
    chosen = [cases.Case("work", lambda _: started.set(), 0)]
    chosen += [cases.Case(name, wait, 0, waits=True) for name in ("with", "without")]
    runner.play(load.load_contract("codex"), tmp_path / "engine", chosen, MagicMock())
    assert started.is_set()


def test_no_more_than_the_slots_are_held() -> None:
    """With two slots, a third holder waits until one is released."""
    slots, held = Slots(2), threading.Event()

    def third() -> None:
        with slots.held(0):
            held.set()

    with ThreadPoolExecutor() as pool:
        with slots.held(0), slots.held(0):
            pool.submit(third)
            assert not held.wait(0.05)
        assert held.wait(10)


def test_the_more_urgent_goes_first() -> None:
    """Slots go to waiting threads by priority, then in order of arrival."""
    slots = Slots(1)
    queue = Queue(slots)
    with slots.held(0):
        queue.ask("later", 2)
        queue.ask("first", 1)
        queue.ask("second", 1)
    queue.join()
    assert queue.served == ["first", "second", "later"]


def test_a_slot_that_is_freed_early_comes_back_once() -> None:
    """A freed slot goes to the next holder; freeing it again, or the end of its block, frees no other one."""
    slots = Slots(1)
    with slots.held(0) as free:
        free()
        with slots.held(0):
            free()
            assert slots._free == 0
        assert slots._free == 1
    assert slots._free == 1


def test_a_slot_comes_back_after_an_error() -> None:
    """An exception releases the slot."""
    slots = Slots(1)
    with pytest.raises(ZeroDivisionError), slots.held(0):
        raise ZeroDivisionError
    with slots.held(0):
        pass
