"""The mistakes that a simulated sticky process can be made to make."""

from collections.abc import Mapping

DIES_AFTER_TURN, DIES_IN_TURN = "dies-after-turn", "dies-in-turn"
IGNORES_TERMINATION, ASKS_TWICE = "ignores-termination", "asks-twice"
FORGETS, ACTS_UNASKED = "forgets", "acts-unasked"
CHANGES_SESSION, PRINTS_NOISE = "changes-session", "prints-noise"

FAULTS: Mapping[str, str] = {
    DIES_AFTER_TURN: "exits once its first turn has ended",
    DIES_IN_TURN: "exits during its first turn",
    IGNORES_TERMINATION: "goes on after SIGTERM, SIGINT and the end of its input; only SIGKILL ends it",
    ASKS_TWICE: "asks for each action by two requests at once",
    FORGETS: "sends the model nothing from earlier turns",
    ACTS_UNASKED: "acts without asking, whatever mode it reports",
    CHANGES_SESSION: "goes by another session id from its second turn on",
    PRINTS_NOISE: "prints a line that is not JSON before each message",
}
