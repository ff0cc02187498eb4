"""What an engine plays in one run, as values."""

from collections.abc import Mapping

from msgspec import Struct

from turngate_probes.simulate.faults import Play

BIN, HOME = "bin", "home"


class Conversation(Struct, frozen=True):
    """One conversation.

    It has a name, what the user says in each turn, the word that only the right answer contains, and its directory.
    """

    name: str
    prompts: tuple[str, ...]
    answer: str
    workspace: str = ""


class ConformPlan(Struct, frozen=True):
    """What an executable needs to play its part: `folder` also gets its records.

    real: The real CLI that it runs instead of the simulated one, with these variables; empty: none.
    elsewhere: The variables if COMMAND gives it another HOME than its own, so that it has other sessions there.
    """

    folder: str
    engine: str
    version: str
    conversations: tuple[Conversation, ...]
    plays: tuple[Play, ...] = ()
    turns: int = 2
    real: str = ""
    real_env: Mapping[str, str] = {}
    elsewhere: Mapping[str, str] = {}
