"""What an attempt has left whose turngate was killed or has failed: its engine, and the session id in its output."""

from contextlib import suppress

from turngate import Ended, EngineContract, MachineError, Mode, read_turn
from turngate.contract.launch import Stream
from turngate.files import read_regular
from turngate.process.family import Noted, end_orphans
from turngate.turn.read import STREAMS
from turngate_reference.engine.attempt import traces
from turngate_reference.handle_record import HandleRecord, SessionReference


def end_engine(record: HandleRecord) -> None:
    """End the engine of the killed attempt: two engines must never run on one session; MachineError: it can't be.

    The caller holds the lock of the handle.
    """
    if left := end_orphans([Noted(record.run_id)]):
        what = f"an earlier attempt of {record.handle} still runs: process {', '.join(map(str, left))} can't be stopped"
        raise MachineError(what, "end it, then try again")


def settled(record: HandleRecord, contract: EngineContract) -> HandleRecord:
    """End the engine as `end_engine` does; return the record with the session that the engine has reported, if any."""
    end_engine(record)
    return with_session(record, contract)


def with_session(record: HandleRecord, contract: EngineContract) -> HandleRecord:
    """Return the record with the session that the engine has reported in its last attempt, unless it has one."""
    if record.session.value or not (session := _reported_session(record, contract)):
        return record
    return record.updated(session=SessionReference(contract.handle.field, session, seen=None))


def _reported_session(record: HandleRecord, contract: EngineContract) -> str | None:
    output: dict[Stream, bytes] = dict.fromkeys(STREAMS, b"")
    for name in STREAMS:
        with suppress(OSError):  # there may be no output yet
            output[name] = read_regular(traces(record.run_directory, record.turns) / name)
    turn = read_turn(
        contract, Mode.AUTO, output["stdout"], output["stderr"], None, turn_index=record.turns, ended=Ended.STOPPED
    )
    return turn.session.handle_value if turn.session else None
