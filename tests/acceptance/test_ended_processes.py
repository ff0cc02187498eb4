"""Sessions of real engines whose processes are ended at the terminal event of each turn."""

from pathlib import Path

import pytest

from tests.probes import engines
from turngate.argv.build import first_turn, resumed_turn
from turngate.model import Ended, Mode
from turngate.process import execution
from turngate.process.turn_run import process_request, run_turn
from turngate.turn.read import TurnReader
from turngate_probes.harness.driver import QUESTION
from turngate_probes.harness.sandbox import sandbox
from turngate_probes.stub_model import StubRule, Text, new_nonce

pytestmark = [pytest.mark.engines, pytest.mark.long]
RESUMES = 20


@pytest.mark.parametrize("engine", ["codex", "claude", "gemini", "opencode", "qwen"])
def test_a_session_is_resumed_after_its_process_was_ended(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process of each turn is ended sooner than usual, and no word of the conversation is lost."""
    monkeypatch.setattr(execution, "EXIT_LIMIT", 0.0)
    contract, executable = engines.pinned_release(engine)
    with sandbox(contract.hermetic, tmp_path, engine, keep=False) as box:
        box.backend.script(StubRule(Text(QUESTION)))
        options = tuple(map(box.fill, contract.hermetic.options))
        model = contract.hermetic.model if contract.launch.model else None
        nonces, session = list[str](), ""
        for number in range(RESUMES + 1):
            nonces.append(new_nonce())
            text, before = f"Ask me. {nonces[-1]}", len(box.backend.exchanges())
            turn = (
                resumed_turn(
                    contract, text, Mode.INTERACTIVE, session, options=options, model=model, workspace=box.root
                )
                if session
                else first_turn(contract, text, Mode.INTERACTIVE, options=options, model=model, workspace=box.root)
            )
            request = process_request(turn, executable, box.work, env=box.env(contract.hermetic, box.work), timeout=120)
            run = run_turn(request, TurnReader.for_turn(turn, turn_index=number + 1))
            assert run.process.ended in (Ended.LINGERED, Ended.EXIT)
            assert run.reading.result.interaction, (number, run.reading.result.failure_reason)
            assert run.reading.session
            session = session or run.reading.session.handle_value
            assert any({*nonces} <= {*sent.nonces} for sent in box.backend.exchanges()[before:]), number
