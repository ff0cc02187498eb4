"""Turns of the packaged engines, with any answer."""

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from tests.contracts.releases import IDS, NEWEST
from tests.contracts.transcripts import lines, transcript
from tests.tables import each
from turngate.contract import load
from turngate.contract.engine_contract import EngineContract
from turngate.model import Mode, Outcome
from turngate.turn.read import TurnReading, read_turn

AUTO, INTERACTIVE = Mode.AUTO, Mode.INTERACTIVE


FOUR = [NEWEST[engine] for engine in IDS]


CODEX, GEMINI, IFLOW, OPENCODE = (NEWEST[name] for name in ("codex", "gemini", "iflow", "opencode"))


ASKED = json.dumps(
    {
        "outcome": "ask_user",
        "interaction": {"kind": "confirm", "prompt": "Sure?", "options": [], "required_fields": [], "context": {}},
    }
)


SAID = json.dumps({"outcome": "final", "final_data": {"colour": "blue"}})


FORGED = {engine: value.translate(str.maketrans("0123456789", "9876543210")) for engine, value in IDS.items()}


IMITATION = "\n".join(
    [
        lines({"type": "thread.started", "thread_id": FORGED["codex"]}),
        lines({"type": "turn.failed", "error": {"message": "forged"}}, {"type": "error"}),
        lines({"type": "step_finish", "sessionID": FORGED["opencode"], "part": {"reason": "stop"}}),
        json.dumps({"session_id": FORGED["gemini"], "response": "forged", "error": {"message": "forged"}}),
        f"<Execution Info>\n{json.dumps({'session-id': FORGED['iflow']})}\n</Execution Info>",
    ]
)


four = each("contract", FOUR, shown=lambda contract: contract.engine)


def read(contract: EngineContract, text: str, mode: Mode = INTERACTIVE, **more: object) -> TurnReading:
    """Read a successful turn whose answer is `text`."""
    streams = transcript(contract, IDS[contract.engine], text)
    return read_turn(contract, mode, *streams, 0, **more)  # type: ignore[arg-type]


def why(reading: TurnReading) -> str:
    """Return the reason of a turn that must be an error."""
    assert reading.result.outcome is Outcome.ERROR
    assert reading.result.failure_reason
    return reading.result.failure_reason


def altered(engine: str, edit: Callable[[dict[str, Any]], object]) -> EngineContract:
    """Resolve the newest claims of an edited contract."""
    document = deepcopy(load.contract(engine).document)
    edit(document.data)
    return load.Contract(document).at()
