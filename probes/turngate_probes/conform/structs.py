"""The values of `turngate conform`: rules and scenarios."""

from typing import Literal

from msgspec import Struct

from turngate.contract.clauses import Severity
from turngate_probes.conform.plan import Play

Expected = Literal["success", "failure", "either"]
Need = Literal["lines", "text", "stdin", "third_turn"]


class Rule(Struct, frozen=True, forbid_unknown_fields=True):
    """One thing that every orchestrator must do: the sentence, why, and what breaks otherwise."""

    id: str
    sentence: str
    why: str
    severity: Severity


class Source(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a misbehaviour was seen: the engine, its release (or releases), and the report or the recording of it."""

    engine: str
    release: str
    see: str


class Scenario(Struct, frozen=True, forbid_unknown_fields=True):
    """A conversation with an engine, and what an orchestrator must make of it.

    id, sentence, why: Its name, what happens, and why it matters.
    rule: The rule that its result tests.
    expect: Whether COMMAND must succeed (exit with 0 and print the answer), must fail, or may do either.
    seen: The real releases that did this. None: every engine does it, or it is the caller's doing.
    needs: What the engine needs: one record per line (`lines`), a prompt on standard input (`stdin`); or the driver: a
        second reply (`third_turn`).
    prompt, reply: What the user says; `{name}` is replaced by the name of the conversation.
    workspace: The name of the directory that COMMAND gets.
    conversations: How many run at once, in the same directory.
    turns: How many turns the conversation has.
    deadline: Seconds that COMMAND gets for a turn.
    plays: What the engine does.
    """

    id: str
    sentence: str
    why: str
    rule: str
    expect: Expected
    seen: tuple[Source, ...] = ()
    needs: tuple[Need, ...] = ()
    prompt: str = "Ask me which colour I like, then name it. ({name})"
    reply: str = "red ({name})"
    workspace: str = "workspace"
    conversations: int = 1
    turns: int = 2
    deadline: float = 60.0
    plays: tuple[Play, ...] = ()

    @property
    def seconds(self) -> float:
        """How long it must take, at least: its delays, and the deadlines that its hangs use up."""
        return sum(play.delay + play.pause + (self.deadline if play.hang else 0) for play in self.plays)
