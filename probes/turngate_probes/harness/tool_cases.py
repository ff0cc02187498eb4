"""What the model calls beside tools that write: the engine's own tool for questions, and commands in its sandbox."""

import shutil
import zlib

from msgspec.structs import replace

from turngate import EngineContract, Mode
from turngate.contract.clauses import Reason
from turngate.contract.home_and_workspace import QuestionCall, ToolUse
from turngate_probes.harness.driver import FINAL, TOOL_PATIENCE, Ask, EngineDriver, Write, ask
from turngate_probes.harness.interrupt import CaseStoppedError
from turngate_probes.harness.observations import Turn

EXIT_CODE = 113  # of a command that fails, which nothing else in the model's input is
OUTSIDE = "outside"


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


def terms(sandbox: str) -> tuple[int, int]:
    """Return the numbers that the allowed command in a sandbox adds: the same in each recording, without their sum."""
    return 10**6 + zlib.crc32(sandbox.encode()) % 10**6, 3 * 10**6


def sandboxed(driver: EngineDriver) -> None:
    """In each sandbox of the engine, run a command that writes outside the workspace and fails, and one that adds.

    CaseStoppedError: the machine lacks a program that the sandbox needs.
    """
    for own in driver.contract.command_sandboxes:
        if own.call is None:
            continue
        if missing := [program for program in own.programs if shutil.which(program) is None]:
            what = f"this machine lacks what the engine's sandbox needs: {', '.join(missing)}"
            raise CaseStoppedError(what, Reason.MACHINE)
        box = driver.sandbox.nested(own.name, driver.contract.hermetic)
        box.place(own.files)
        inside, asked, file = driver.within(box, {}), ask(FINAL, mode=Mode(own.mode)), box.other / "outside.txt"
        fails = inside.call_of(own.call, command=f"touch {file}; exit {EXIT_CODE}")
        adds = inside.call_of(own.call, command="expr {} + {}".format(*terms(own.name)))
        inside.start(
            own.name, replace(asked, writes=(Write(OUTSIDE, fails, file),), calls=(adds,), patience=TOOL_PATIENCE)
        )


def sandboxed_turns(contract: EngineContract) -> int:
    """Return how many turns the case plans."""
    return sum(own.call is not None for own in contract.command_sandboxes)
