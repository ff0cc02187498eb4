"""What the model calls beside tools that write: the engine's own tool by which an agent asks its user."""

from msgspec.structs import replace

from turngate import EngineContract, Mode
from turngate.contract.home_and_workspace import QuestionCall, ToolUse
from turngate_probes.harness.driver import FINAL, TOOL_PATIENCE, Ask, EngineDriver, ask
from turngate_probes.harness.observations import Turn


def questions_offered(contract: EngineContract, turn: Turn) -> tuple[QuestionCall, ...]:
    """Return the calls of the tools for questions that the requests of a turn offer."""
    offered = {name for request in turn.requests or () for name in request.tools}
    return tuple(call for call in contract.question_calls if call.tool in offered)


def question_mark(nonce: str, call: QuestionCall) -> str:
    """Return the word by which a question is found, which is not in the prompt."""
    return f"question-{call.name}-{nonce.rpartition('-')[2]}"


def question(driver: EngineDriver, mode: Mode, calls: tuple[QuestionCall, ...]) -> Ask:
    """Return a turn in which the model asks its user by each of these calls, and then answers."""
    asked = ask(FINAL, mode=mode)
    made = (
        # nobody asks from within a program
        driver.call_of(
            ToolUse(call.tool, call.arguments),
            direct=True,
            question=f"Which colour, {question_mark(asked.nonce, call)}?",
        )
        for call in calls
    )
    return replace(asked, calls=tuple(made), patience=TOOL_PATIENCE)
