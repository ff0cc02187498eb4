"""Cases that disturb a session, and those that let several turns run at the same time.

Each step of a disturbed session shows what the one before it did: whether its request carries the session on. If it
doesn't, the step is repeated in a new session, so that one loss hides no other.
"""

import re
from signal import Signals

from msgspec import Struct
from msgspec.structs import replace

from turngate import EngineContract, Mode
from turngate.contract.home_and_workspace import ToolUse
from turngate_probes.harness.driver import FINAL, HELD, TOOL_PATIENCE, Ask, EngineDriver, Meant, Moment, ask
from turngate_probes.harness.observations import Turn
from turngate_probes.stub_model import Cut, Hang, Refuse, Reply, Text

# seconds after its first request, for a turn whose model fails: engines retry for minutes, and few users wait for that
FAILURE_PATIENCE = 3.0
REPEATED, OPENING = "-repeated", "-opening"
_ABSENT = "absent.txt"


class Disturbance(Struct, frozen=True):
    """What happens in a turn: the command that the model calls, its reply, and when the engine is killed, if at all."""

    step: str
    what: str
    command: str | None = None
    reply: Reply = FINAL
    killed: Moment | None = None

    def asked(self, contract: EngineContract, turn_index: int) -> Ask:
        """Return the input of its turn."""
        plain = ask(self.reply, mode=Mode.AUTO, turn_index=turn_index)
        tool = contract.hermetic.command_call if self.command is not None else None
        if tool and self.command:
            tool = running(tool, self.command)
        patience = TOOL_PATIENCE if tool or self.killed else None
        if isinstance(self.reply, Refuse | Cut):
            patience = FAILURE_PATIENCE
        signal = Signals.SIGKILL if self.killed else None
        return replace(plain, tool=tool, patience=patience, signal=signal, moment=self.killed or "request")


# an empty command is the contract's own, which makes a file
CALLS = (
    Disturbance("called", "a tool call", command=""),
    Disturbance("call-failed", "a failed tool call", command=f"cat {_ABSENT}"),
)
# what an engine asks beside the conversation, such as which model should answer, needs not carry the session
FAILURES = (
    Disturbance("failed-401", "status 401", reply=Refuse(401, alone=True)),
    Disturbance("failed-429", "status 429", reply=Refuse(429, alone=True)),
    Disturbance("failed-500", "status 500", reply=Refuse(500, alone=True)),
    Disturbance("failed-cut", "a cut answer", reply=Cut()),
)
KILLS = (
    Disturbance("killed-in-request", "a kill while the model answers", reply=Hang(), killed="request"),
    Disturbance("killed-in-call", "a kill while a tool runs", command=f"cat {HELD}", killed="call"),
    Disturbance("killed-at-end", "a kill at the terminal event", killed="end"),
)
LAST = Disturbance("last", "a good turn")
A, B, A_AGAIN, A_BESIDE, B_AGAIN, A_LAST = "a-first", "b-first", "a-again", "a-beside", "b-again", "a-last"


def disturbances(contract: EngineContract) -> tuple[Disturbance, ...]:
    """Return what happens in the turns of one session, as far as the contract names a command for the model to call."""
    every = (*CALLS, *FAILURES, *KILLS, LAST)
    if contract.hermetic.command_call is not None:
        return every
    return tuple(each for each in every if not each.command)


def disturbed(driver: EngineDriver) -> None:
    """Let one session go through everything that may happen to a turn, and then a good turn."""
    first, *others = disturbances(driver.contract)
    opening = driver.start(first.step, first.asked(driver.contract, 1))
    for number, each in enumerate(others):
        turn = driver.resume(each.step, opening.session, each.asked(driver.contract, number + 2))
        if not turn.carries(opening) and each is not LAST:
            opening = driver.start(each.step + OPENING, ask(FINAL, mode=Mode.AUTO))
            driver.resume(each.step + REPEATED, opening.session, each.asked(driver.contract, 2))


def disturbed_turns(contract: EngineContract) -> int:
    """Return how many turns `disturbed` plans."""
    return len(disturbances(contract))


def at_once(driver: EngineDriver) -> None:
    """Run two conversations side by side, and resume one of them twice at once.

    The first turn of all runs alone, since a user's home has been used before: a new one may hold what only one process
    can make, such as a database.
    """
    a = driver.start(A, _answering(A))
    b = driver.at_once(
        Meant(B, None, _answering(B), opens=True), *(_resuming(step, a) for step in (A_AGAIN, A_BESIDE))
    )[0]
    driver.at_once(_resuming(A_LAST, a, turn_index=4), _resuming(B_AGAIN, b))


def running(tool: ToolUse, command: str) -> ToolUse:
    """Return the call of another command; the contract's own makes its file with `touch` or `echo`."""
    made = rf"(?:touch|echo hi >) ?{re.escape(tool.creates_file)}"

    def other(value: object) -> object:
        if isinstance(value, list) and re.fullmatch(made, " ".join(map(str, value))):
            return command.split()
        return re.sub(made, command, value) if isinstance(value, str) else value

    return replace(tool, arguments={key: other(value) for key, value in tool.arguments.items()})


def _answering(step: str, turn_index: int = 1) -> Ask:
    """Return a prompt whose answer names the step."""
    return ask(Text(f'{{"outcome": "final", "final_data": {{"step": "{step}"}}}}'), turn_index=turn_index)


def _resuming(step: str, turn: Turn, turn_index: int = 2) -> Meant:
    return Meant(step, turn.session, _answering(step, turn_index))
