from pathlib import Path
from typing import cast

import pytest

from tests.reference.server.orchestrator.modelled_server import ENGINE
from turngate_reference.server.orchestrator.headless import HeadlessTurn
from turngate_reference.server.orchestrator.kept_processes import KeptProcesses
from turngate_reference.server.orchestrator.kept_turn import KeptTurn
from turngate_reference.server.store.database import Outbox
from turngate_reference.server.store.runs import Run, RunSession

HANDLE = ENGINE.contract.handle
ID = HANDLE.nonexistent_id


def turn(session: RunSession | None) -> KeptTurn:
    """Return the first turn of a run with this session."""
    run = type("Run", (), {"session": session, "cwd": Path(), "turn_index": 1})()
    headless = HeadlessTurn(cast(Outbox, None), cast(Run, run), ENGINE, {}, lambda _text: None, lambda *_: None)
    return KeptTurn(headless, cast(KeptProcesses, None))


@pytest.mark.parametrize(
    "session_id,before,is_kept",
    [
        (ID, None, True),
        ("--yolo", None, False),
        ("", None, False),
        (ID, RunSession("codex", HANDLE.handle_type, ID, 1), False),
    ],
)
def test_a_session_id_is_kept_once(session_id: str, before: RunSession | None, *, is_kept: bool) -> None:
    """An id is kept only if it can be passed on and the run has none yet."""
    expected = RunSession("codex", HANDLE.handle_type, ID, 1) if is_kept else None
    assert turn(before)._new_session(session_id) == expected
