"""The cases of the server level."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.probes import turns as t
from tests.tables import each
from turngate.contract.clauses import Reason
from turngate_probes.harness.cases import FIRST_TURN
from turngate_probes.harness.driver import EngineDriver
from turngate_probes.harness.interrupt import CaseStoppedError, Interrupt
from turngate_probes.server_level import cases
from turngate_probes.server_level.cases import RESUMED_CASES, SERVER_CASES, STICKY_CASES, SURROUNDED_CASES


class _Run:
    """Records how runs are created and started, then stops the case."""

    made: list[tuple[bool, ...]]

    def __init__(self, _driver: Any, *options: bool) -> None:
        self.made.append(options)

    def open(self) -> None:
        raise CaseStoppedError("opened")

    def close(self) -> None:
        self.made.append((False, False))


def driver(contract: Any, freed: list[str] | None = None) -> EngineDriver:
    """Return a driver without a real engine, which notes in `freed` that its slot was freed early."""
    sandbox: Any = type("NoSandbox", (), {"root": Path()})
    slot = nullcontext(lambda: (freed if freed is not None else []).append("freed"))
    return EngineDriver("case", contract, Path("engine"), sandbox, lambda: slot, Interrupt(), lambda _: None)


def test_every_case_has_a_name_and_is_of_the_server_level() -> None:
    """Case names are unique, and all cases are of the server level."""
    assert len({case.name for case in SERVER_CASES}) == len(SERVER_CASES)
    assert (FIRST_TURN, *RESUMED_CASES, *STICKY_CASES, *SURROUNDED_CASES) == SERVER_CASES
    assert {case.level for case in SERVER_CASES} == {"server"}


@pytest.mark.parametrize("case", SERVER_CASES[1 : -len(SURROUNDED_CASES)], ids=lambda case: case.name)
def test_a_case_has_its_own_server(case: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each case starts its own server and ends it; only one case hides ids, and only sticky cases keep a process.

    A case that waits frees its slot.
    """
    freed = list[str]()
    _Run.made = []
    monkeypatch.setattr(cases, "ServerRun", _Run)
    monkeypatch.setattr(cases, "install", lambda *_args, hide=False, given=None: hide)
    with pytest.raises(CaseStoppedError, match="opened"):
        case.play(driver(t.CODEX, freed))
    assert freed == (["freed"] if case.waits else [])
    assert _Run.made == [(case.name == "missing-handle", case.name.startswith("sticky")), (False, False)]


@each("case", [*STICKY_CASES, *SURROUNDED_CASES], shown=lambda case: case.name)
def test_a_contract_without_a_sticky_transport_stops_its_cases(case: Any) -> None:
    """Without a sticky transport in the contract, its cases stop with that reason."""
    without = replace(t.CODEX, sticky=replace(t.CODEX.sticky, transport="none"))
    with pytest.raises(CaseStoppedError, match="no sticky transport") as stopped:
        case.play(driver(without))
    assert stopped.value.obstacle.reason is Reason.CONTRACT
