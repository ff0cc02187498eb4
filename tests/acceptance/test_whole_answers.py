"""Long answers of real engines that would lose them in a pipe."""

import os
from contextlib import suppress
from pathlib import Path

import pytest

from tests.probes import engines
from turngate.argv.build import first_turn
from turngate.contract.launch import Stream
from turngate.model import Mode
from turngate.process.turn_run import process_request, run_turn
from turngate.turn.read import TurnReader
from turngate_probes.harness.cases import LONG_ANSWER
from turngate_probes.harness.sandbox import sandbox
from turngate_probes.stub_model import StubRule, Text

pytestmark = pytest.mark.engines
CHOSEN = [("claude", "json"), ("claude", "stream-json"), ("gemini", "json"), ("gemini", "stream-json"), ("qwen", "")]


@pytest.mark.parametrize("engine, output", CHOSEN)
def test_a_long_answer_is_whole_although_its_reader_waits_for_the_exit(
    engine: str, output: str, tmp_path: Path
) -> None:
    """A caller that reads nothing between the first bytes and the exit of the engine loses nothing."""
    contract, executable = engines.pinned_release(engine)
    contract = contract.in_output(output)
    pids = list[int]()

    def read(stream: Stream, _chunk: bytes) -> None:
        if stream == "stdout" and pids:
            with suppress(ChildProcessError):  # what an engine writes into a file may be read only after its exit
                os.waitid(os.P_PID, pids.pop(), os.WEXITED | os.WNOWAIT)

    with sandbox(contract.hermetic, tmp_path, engine, keep=False) as box:
        box.backend.script(StubRule(Text(LONG_ANSWER)))
        options = tuple(map(box.fill, contract.hermetic.options))
        model = contract.hermetic.model if contract.launch.model else None
        turn = first_turn(contract, "Count.", Mode.AUTO, options=options, model=model, workspace=box.root)
        request = process_request(turn, executable, box.work, env=box.env(contract.hermetic, box.work), timeout=120)
        run = run_turn(request, TurnReader.for_turn(turn), on_output=read, on_start=pids.append)
    assert (run.process.exit_code, pids) == (0, [])
    assert run.reading.final_text == LONG_ANSWER
