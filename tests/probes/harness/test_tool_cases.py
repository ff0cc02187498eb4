"""The turns in which the model asks its user by a tool, on simulated engines."""

from pathlib import Path

from tests.probes import engines
from turngate.contract import load
from turngate.model import Mode
from turngate_probes.harness.tool_cases import question_mark, questions_offered
from turngate_probes.simulate.simulated_process import install

GEMINI = load.contract("gemini").at("0.61.0")


def test_a_question_is_asked_where_a_turn_offers_the_tool(tmp_path: Path) -> None:
    """Each mode whose turn offers the tool has a turn in which the model asks; without the tool there is none."""
    for fault, asked in (("answers-questions", [Mode.INTERACTIVE, Mode.AUTO]), ("bom", [])):
        folder = tmp_path / fault
        executable = install(GEMINI, folder / "bin", (fault,))
        turns = engines.play(executable, folder, "tool-call", contract=GEMINI).observed.turns
        questions = [turn for name, turn in turns.items() if name.endswith("-question")]
        assert [turn.mode for turn in questions] == asked
        for turn in questions:
            (call,) = questions_offered(GEMINI, turn)
            answered = turn.watched[-1]
            assert [request.reply for request in turn.watched] == ["tool_call ask_user", "text"]
            assert question_mark(turn.nonce, call).encode() in answered.body
            assert question_mark(turn.nonce, call) not in turn.prompt
