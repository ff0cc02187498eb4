from pathlib import Path
from typing import Any, cast

import pytest

from turngate.contract import load
from turngate.contract.structs import EngineContract
from turngate_reference.server.orchestrator.sticky_runs import StickyRun
from turngate_reference.server.store.database import Outbox
from turngate_reference.server.store.runs import ProcessNote, Run

CODEX = load.contract("codex").at("0.169.0")
ID = CODEX.handle.nonexistent_id


def sticky(contract: EngineContract, session: dict[str, Any] | None, told: str) -> StickyRun:
    """Return a sticky run with this session id, whose process has told another one."""
    run = type("Run", (), {"session": session, "cwd": Path()})()
    return StickyRun(
        cast(Run, run),
        contract,
        cast(Outbox, None),
        lambda _text: None,
        0.0,
        ProcessNote("", transport_session_id=told),
    )


@pytest.mark.parametrize(
    "session_id,before,is_kept",
    [
        (ID, None, True),
        ("--yolo", None, False),
        ("", None, False),
        (ID, {"handle_value": ID}, False),
    ],
)
def test_a_session_id_is_kept_once(session_id: str, before: dict[str, Any] | None, *, is_kept: bool) -> None:
    """An id is kept only if it can be passed on and the run has none yet."""
    expected = (
        {"engine": "codex", "handle_type": CODEX.handle.handle_type, "handle_value": ID, "created_at_turn": 1}
        if is_kept
        else None
    )
    assert sticky(CODEX, before, session_id).session() == expected
