"""First turns and resumes of the packaged engines."""

import re

from hypothesis import strategies as st

from tests.contracts.releases import NEWEST, name_of, session_of
from tests.tables import each
from turngate.argv.build import Invocation, first_turn, resumed_turn
from turngate.contract.engine_contract import EngineContract
from turngate.model import Mode

AUTO, INTERACTIVE = Mode.AUTO, Mode.INTERACTIVE


CODEX, GEMINI, IFLOW, OPENCODE = (NEWEST[name] for name in ("codex", "gemini", "iflow", "opencode"))


ENGINES = st.sampled_from(list(NEWEST.values()))


every_engine = each("contract", NEWEST.values(), shown=name_of)


def both(contract: EngineContract, prompt: str, mode: Mode, **more: object) -> tuple[Invocation, Invocation]:
    """Build a first turn and a resume."""
    handle = session_of(contract)
    return first_turn(contract, prompt, mode, **more), resumed_turn(contract, prompt, mode, handle, **more)  # type: ignore[arg-type]


def carried(built: Invocation) -> str | None:
    """Return the prompt of an invocation, as the engine will read it."""
    if built.stdin is not None:
        return built.stdin.decode()
    held = [built.arguments[i] for i in built.prompt_at]
    return re.sub("^--(prompt|query)=", "", held[0]) if len(held) == 1 else None
