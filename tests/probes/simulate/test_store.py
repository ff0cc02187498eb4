from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.probes.simulate.played import SimulatedMachine, at_known_release, every_simulation
from tests.tables import each
from turngate.argv import build
from turngate.contract.engine_contract import EngineContract
from turngate.contract.launch import StoreCheck
from turngate.errors import ContractError
from turngate.model import Mode
from turngate.process.session_store import session_exists
from turngate_probes.simulate.store import SimulatedSession, store


@every_simulation
def test_a_session_lies_where_the_contract_looks_for_it(contract: EngineContract, tmp_path: Path) -> None:
    """After a first turn the contract's own check finds the session, and doesn't find a nonexistent one."""
    machine = SimulatedMachine(tmp_path)
    built = build.first_turn(contract, "hi", Mode.INTERACTIVE)
    session = machine.call(contract, built.arguments, built.stdin or b"").session(contract)
    if contract.store is None:
        return
    assert _is_there(contract, machine, session)
    assert _is_there(contract, machine, contract.handle.nonexistent_id) is False


@every_simulation
def test_what_is_kept_is_found_again(contract: EngineContract, tmp_path: Path) -> None:
    """A saved session is read back unchanged, others don't affect it, and a deleted one is gone."""
    sessions = store(contract, {"HOME": str(tmp_path)}, "/w")
    one, other = (
        SimulatedSession(
            contract.handle.nonexistent_id.replace("0000", digits),
            "/w",
            1.5,
            messages=[{"role": "user", "content": "\u2028é"}],
        )
        for digits in ("1111", "2222")
    )
    elsewhere = SimulatedSession(contract.handle.nonexistent_id.replace("0000", "3333"), "/other", 1.5)
    for session in (one, other, elsewhere):
        store(contract, {"HOME": str(tmp_path)}, session.cwd).keep(session)
    assert sessions.find(one.handle) == one
    assert [session.handle for session in sessions.others(one)] == [other.handle]
    sessions.drop(one)
    assert sessions.find(one.handle) is None
    assert sessions.find(other.handle) == other


@every_simulation
def test_a_home_may_have_any_name(contract: EngineContract, tmp_path: Path) -> None:
    """Sessions are found in a home whose name contains wildcard characters."""
    sessions = store(contract, {"HOME": str(tmp_path / "[a]*{b}")}, "/w [x]*")
    session = SimulatedSession(contract.handle.nonexistent_id.replace("0000", "1111"), "/w [x]*", 1.5)
    sessions.keep(session)
    assert sessions.find(session.handle) == session
    assert sessions.find("*") is None


def test_variables_move_the_store(tmp_path: Path) -> None:
    """A variable in the contract selects where sessions are stored."""
    codex = at_known_release("codex")
    store(codex, {"HOME": "/nowhere", "CODEX_HOME": str(tmp_path)}, "/w").keep(SimulatedSession("h", "/w", 0.0))
    assert list(tmp_path.glob("sessions/*/*/*/rollout-*-h.jsonl"))


def test_a_query_that_names_no_table_is_an_error_of_the_contract() -> None:
    """An unsupported query is an error in the contract."""
    codex = at_known_release("codex")
    assert codex.store
    odd = replace(codex, store=replace(codex.store, check=StoreCheck("sqlite", file="f", query="SELECT 1")))
    with pytest.raises(ContractError, match="table"):
        store(odd, {}, "/w")


def _is_there(contract: EngineContract, machine: SimulatedMachine, handle: str) -> bool | None:
    return session_exists(contract.store, handle, {"HOME": str(machine.root / "home")}, machine.root / machine.work)


@each("text", ['{"type": "session.start", "data": {}}\n', "[1]\n", "not JSON", "", "\udc80"])
def test_a_session_of_the_real_engine_is_none(text: str, tmp_path: Path) -> None:
    """A file that the simulation did not write is passed over."""
    contract = at_known_release("copilot")
    sessions = store(contract, {"HOME": str(tmp_path)}, "/w")
    own, real = (
        SimulatedSession(contract.handle.nonexistent_id.replace("0000", d), "/w", 1.5) for d in ("1111", "2222")
    )
    for session in (own, real):
        sessions.keep(session)
    (path,) = (file for file in tmp_path.rglob("*") if file.is_file() and real.handle in str(file))
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert [session.handle for session in sessions.sessions()] == [own.handle]
