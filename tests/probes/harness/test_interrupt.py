"""The interrupt stops running processes and lets no new ones start."""

import os
import signal
import threading

import pytest

from tests.tables import each
from turngate.contract.clauses import Reason
from turngate.errors import ContractError, MachineError, RefusedError
from turngate_probes.harness.interrupt import CaseStoppedError, Interrupt, ObstacleError, interrupting


def test_it_sets_every_stop_under_way() -> None:
    """An interrupt from any thread stops every running process."""
    interrupt = Interrupt()
    with interrupt.scope() as one, interrupt.scope() as other:
        assert not one.is_set()
        thread = threading.Thread(target=interrupt.set)
        thread.start()
        thread.join()
        assert one.is_set()
        assert other.is_set()


def test_it_leaves_what_has_ended_alone() -> None:
    """A process that has already ended is not stopped."""
    interrupt = Interrupt()
    with interrupt.scope() as ended:
        pass
    interrupt.set()
    assert not ended.is_set()


def test_nothing_starts_after_it() -> None:
    """After an interrupt no process starts."""
    interrupt = Interrupt()
    assert not interrupt.is_set()
    interrupt.set()
    assert interrupt.is_set()
    with pytest.raises(CaseStoppedError, match="interrupted"), interrupt.scope():
        pytest.fail("it went on")


def test_waiting_ends_with_it() -> None:
    """An interrupt ends a long wait; a wait for a past time returns at once."""
    interrupt = Interrupt()
    interrupt.wait(-1.0)
    timer = threading.Timer(0.05, interrupt.set)
    timer.start()
    with pytest.raises(CaseStoppedError, match="interrupted"):
        interrupt.wait(60.0)
    timer.join()


def test_it_is_the_reason_of_whatever_failed_after_it() -> None:
    """After an interrupt, every failure has the reason "interrupted"."""
    interrupt = Interrupt()
    refused = CaseStoppedError("connection refused")
    assert interrupt.why(refused).text == "connection refused"
    interrupt.set()
    assert interrupt.why(refused).text == "interrupted"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_interrupts_and_a_second_one_kills(number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first signal calls the interrupt on another thread; the second one exits the process."""
    called, killed, codes = threading.Event(), threading.Event(), list[int]()
    interrupts: list[threading.Thread] = []

    def interrupt() -> None:
        interrupts.append(threading.current_thread())
        called.set()

    def exit_at_once(code: int) -> None:
        codes.append(code)
        killed.set()

    monkeypatch.setattr(os, "_exit", exit_at_once)
    with interrupting(interrupt):
        signal.raise_signal(number)
        assert called.wait(60)
        assert codes == []
        signal.raise_signal(number)
        assert killed.wait(60)
    assert codes == [128 + number]
    assert interrupts[0] is not threading.main_thread()


@each(
    "error, reason",
    [
        (MachineError("no disk"), Reason.MACHINE),
        (RefusedError("no such option"), Reason.CONTRACT),
        (ContractError("no such slot"), Reason.CONTRACT),
        (ObstacleError("our server failed"), None),
        (ObstacleError("interrupted", Reason.INTERRUPTED), Reason.INTERRUPTED),
        (ValueError("crash"), None),
    ],
)
def test_what_an_error_stands_for(error: Exception, reason: Reason | None) -> None:
    """Each known error that stops a case has its reason; an unknown error has none, as it is a turngate bug."""
    obstacle = Interrupt().why(error)
    assert (obstacle.reason, obstacle.by_engine) == (reason, False)
    assert obstacle.text


def test_an_interrupt_is_the_reason_whatever_failed() -> None:
    """After an interrupt, not even a failure caused by the engine counts against it."""
    interrupt = Interrupt()
    interrupt.set()
    assert interrupt.why(ObstacleError("connection refused", by_engine=True)).reason is Reason.INTERRUPTED
