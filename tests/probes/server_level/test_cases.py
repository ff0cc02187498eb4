"""The cases of the server level."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.probes import turns as t
from turngate.contract.clauses import Reason
from turngate_probes.harness.driver import EngineDriver
from turngate_probes.harness.interrupt import CaseStoppedError, Interrupt
from turngate_probes.server_level import cases
from turngate_probes.server_level.cases import RESUMED_CASES, SERVER_CASES, STICKY_CASES


class _Run:
    """Notes how a run was made and opened, then stops the case."""

    made: list[tuple[bool, ...]]

    def __init__(self, _driver: Any, *options: bool) -> None:
        self.made.append(options)

    def open(self) -> None:
        raise CaseStoppedError("opened")

    def close(self) -> None:
        self.made.append((False, False))


def driver(contract: Any, slot: Callable[[], AbstractContextManager[None]] = nullcontext) -> EngineDriver:
    """Make a driver of no real engine."""
    sandbox: Any = type("NoSandbox", (), {"root": Path()})
    return EngineDriver("case", contract, Path("engine"), sandbox, slot, Interrupt(), lambda _: None)


def test_every_case_has_a_name_and_is_of_the_server_level() -> None:
    """Checks and recordings name the cases."""
    assert len({case.name for case in SERVER_CASES}) == len(SERVER_CASES) == len(RESUMED_CASES) + len(STICKY_CASES)
    assert {case.level for case in SERVER_CASES} == {"server"}


@pytest.mark.parametrize("case", SERVER_CASES, ids=lambda case: case.name)
def test_a_case_has_its_own_server(case: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the missing handle is hidden, only sticky runs keep a process, and the server is ended in the end."""
    _Run.made = []
    monkeypatch.setattr(cases, "ServerRun", _Run)
    monkeypatch.setattr(cases, "install", lambda *_args, hide: hide)
    with pytest.raises(CaseStoppedError, match="opened"):
        case.play(driver(t.CODEX))
    assert _Run.made == [(case.name == "missing-handle", case.name.startswith("sticky")), (False, False)]


@pytest.mark.parametrize("case", STICKY_CASES, ids=lambda case: case.name)
def test_a_contract_without_a_sticky_transport_stops_its_cases(case: Any) -> None:
    """The reason is the contract."""
    without = replace(t.CODEX, sticky=replace(t.CODEX.sticky, transport="none"))
    with pytest.raises(CaseStoppedError, match="no sticky transport") as stopped:
        case.play(driver(without))
    assert stopped.value.obstacle.reason is Reason.CONTRACT
