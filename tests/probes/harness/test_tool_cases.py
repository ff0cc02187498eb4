"""The turns in which the model asks its user by a tool, or runs commands in a sandbox, on simulated engines."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.probes import engines
from turngate.contract import load
from turngate.contract.clauses import Reason
from turngate.model import Mode
from turngate_probes.harness.tool_cases import question_mark, questions_offered, terms
from turngate_probes.simulate.simulated_process import install

CODEX, GEMINI = load.contract("codex").at("0.169.0"), load.contract("gemini").at("0.61.0")


@pytest.mark.long
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


@pytest.mark.long
def test_commands_run_in_each_sandbox(tmp_path: Path) -> None:
    """Both calls are made in the mode of the sandbox, and the sum reaches the model."""
    executable = install(CODEX, tmp_path / "bin")
    turns = engines.play(executable, tmp_path, "sandbox", contract=CODEX).observed.turns
    assert {turn.name: turn.mode for turn in turns.values()} == {
        "sandbox/read-only": Mode.INTERACTIVE,
        "sandbox/workspace-write": Mode.AUTO,
    }
    for turn in turns.values():
        assert [request.is_call for request in turn.watched] == [True, True, False]
        assert str(sum(terms(turn.step))).encode() in turn.watched[-1].body
        assert turn.written == ()


def test_a_machine_without_a_program_of_the_sandbox_runs_nothing(tmp_path: Path) -> None:
    """The case says what the machine lacks."""
    (own, *_) = CODEX.command_sandboxes
    lacking = replace(CODEX, command_sandboxes=(replace(own, programs=("no-such-program",)),))
    played = engines.play(install(CODEX, tmp_path / "bin"), tmp_path, "sandbox", contract=lacking).observed
    assert played.turns == {}
    assert played.stopped["sandbox"].reason is Reason.MACHINE
    assert "no-such-program" in played.stopped["sandbox"].text
