"""Session ids as the store keeps them."""

from typing import Any

from msgspec import structs

from turngate import EngineContract, EngineSessionHandle
from turngate.turn.session_id import unfamiliar


def stored_session(contract: EngineContract, session_id: str, turn_index: int) -> dict[str, Any]:
    """Return what the store keeps of a session id that was first seen in a turn, in the shape of `SessionHandle`.

    A `note` says that the id doesn't look like those that the contract knows. It is resumed all the same.
    """
    handle = EngineSessionHandle(contract.engine, contract.handle.handle_type, session_id, turn_index)
    difference = unfamiliar(contract.handle, session_id)
    note = {"note": f"the session id has an unfamiliar shape: {difference}"} if difference else {}
    return structs.asdict(handle) | note
