"""The faults that a simulated sticky process can have."""

from collections.abc import Mapping

DIES_AFTER_TURN, DIES_IN_TURN = "dies-after-turn", "dies-in-turn"
IGNORES_TERMINATION, ASKS_TWICE = "ignores-termination", "asks-twice"
FORGETS, ACTS_UNASKED = "forgets", "acts-unasked"
CHANGES_SESSION, PRINTS_NOISE = "changes-session", "prints-noise"

FAULTS: Mapping[str, str] = {
    DIES_AFTER_TURN: "exits once its first turn has ended",
    DIES_IN_TURN: "exits during its first turn",
    IGNORES_TERMINATION: "ignores SIGTERM, SIGINT and the end of its input; only SIGKILL ends it",
    ASKS_TWICE: "asks for each action with two requests at once",
    FORGETS: "sends the model no earlier turns",
    ACTS_UNASKED: "acts without asking, whatever mode it reports",
    CHANGES_SESSION: "uses another session id from its second turn on",
    PRINTS_NOISE: "prints a line that is not JSON before each message",
}
