"""Decides whether an engine's session can be resumed now, by what its session store holds."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import UnsetType

from turngate import EngineContract
from turngate.process.session_store import session_exists, session_place, store_is_there
from turngate_reference.states import RunErrorCode


class ObstacleError(Exception):
    """What keeps a run from going on: `code` says what, and `hint` what brings it back.

    The code SESSION_RESUME_FAILED means that nothing does: the session is gone.
    """

    def __init__(self, code: RunErrorCode, detail: str, hint: str = "") -> None:
        super().__init__(code, detail, hint)
        self.code, self.detail, self.hint = code, detail, hint

    @property
    def is_final(self) -> bool:
        """Whether the session is gone."""
        return self.code is RunErrorCode.SESSION_RESUME_FAILED


def seen_after_first_turn(
    contract: EngineContract, session: str, locations: Mapping[str, str | None], cwd: Path, *, failed: bool
) -> bool | None:
    """Return whether the store holds a session right after the turn that made it; None: nobody knows.

    A turn that failed may have stored none, which says nothing about where the engine would.
    """
    return session_exists(contract.store, session, locations, cwd) is True or (None if failed else False)


def check_stored(
    contract: EngineContract,
    session: str,
    locations: Mapping[str, str | None],
    cwd: Path,
    *,
    seen: bool | UnsetType | None,
) -> bool | None:
    """Raise ObstacleError if a session is lost; `seen` is what `seen_after_first_turn` returned.

    Return whether the store holds it; None: the contract names no store, or nobody knows.
    """
    store = contract.store
    # if the session was not in this store right after it was created, the engine keeps it elsewhere
    if store is None or seen is False:
        return None
    exists = session_exists(store, session, locations, cwd)
    if seen is True and (exists is None or (not exists and not store_is_there(store, locations))):
        why = "can't be read" if exists is None else "isn't there any more"
        detail, hint = f"the session store of {contract.engine} {why}", "unlock or restore it, then try again"
        raise ObstacleError(RunErrorCode.SESSION_STORE_UNAVAILABLE, detail, hint)
    if exists is False:
        place = session_place(store, session, locations, cwd)
        detail = f"the engine's session store does not hold {session}: nothing is at {place}"
        raise ObstacleError(RunErrorCode.SESSION_RESUME_FAILED, detail)
    return exists
