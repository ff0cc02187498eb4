"""What the arguments of a sticky process ask for."""

from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from turngate import EngineContract
from turngate_probes.simulate import arguments
from turngate_probes.simulate.printing import simulation
from turngate_probes.simulate.sticky.approval import contains


class Start(Struct, frozen=True):
    """How a sticky process was started: its transport, its options and the model.

    `resume` is the id of the session to resume, `session` that of a new one, `mode` the permission mode.
    """

    transport: str
    options: Sequence[str]
    model: str
    resume: str | None = None
    session: str | None = None
    mode: str | None = None


def starts_sticky(contract: EngineContract, argv: Sequence[str]) -> bool:
    """Whether the arguments start a sticky process."""
    return _takes_messages(contract, argv) or arguments.is_sticky(contract, argv)


def read(contract: EngineContract, argv: Sequence[str]) -> Start | None:
    """Return how a sticky process is started; None if the arguments start none, UsageProblem if they are refused."""
    if not starts_sticky(contract, argv):
        return None
    line, model = arguments.read_sticky(contract, argv)
    messages = simulation(contract).sticky.stream_json
    if messages is None or not _takes_messages(contract, argv):
        return Start(contract.sticky.transport, line.tokens, model)
    resume = next((name for name, slot in pairwise(contract.launch.resume) if slot == "{handle}"), None)
    return Start(
        "stream_json", line.tokens, model, line.last(resume), line.last(messages.session), line.last(messages.mode)
    )


def _takes_messages(contract: EngineContract, argv: Sequence[str]) -> bool:
    """Whether the arguments have the options that start a process for messages as JSON lines."""
    messages = simulation(contract).sticky.stream_json
    words = [word for token in argv for word in (token.split("=", 1) if token.startswith("--") else [token])]
    return messages is not None and contains(words, messages.argv)
