"""The rules and the scenarios of `turngate conform`: reads them, and explains them in words."""

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from turngate import EngineContract
from turngate.contract import load
from turngate.contract.clauses import Severity
from turngate.decoding import convert
from turngate_probes.simulate.faults import Play, changed
from turngate_probes.simulate.faults import listed as listed_faults
from turngate_probes.simulate.misbehaviour import prints_messages
from turngate_probes.simulate.printing import simulation

PROMPT = "Ask me which colour I like, then name it. ({name})"
Expected = Literal["success", "failure", "either"]
Need = Literal["lines", "messages", "retries", "stdin", "second_turn", "third_turn"]
MOST_TURNS = 3
GRACE = 15.0  # seconds
BASIS = "two-turns"  # a conversation without faults: if it fails, nothing else is proved
NOT_REACHED = f"not reached, since {BASIS} did not succeed"
_FOLDER = Path(__file__).parent
# what concerns the executable or the whole life of a process that runs one turn
_TURN_ONLY = {fault.name.replace("-", "_") for fault in listed_faults() if fault.by == "turn"} | {
    "release",
    "exit_code",
    "goes_on_by_itself",
}
_PLACES = ("last", "stderr")
# what only an output with records can show
_IN_RECORDS = {
    "unknown",
    "padding",
    "decoy",
    "several_messages",
    "omits_end",
    "repeats_end",
    "session_id",
    "retries",
    "goes_on_by_itself",
}
# transports that send text and the end of a turn in messages of their own, and those whose turns name no session
_TWO_QUEUES = ("acp",)
_WITHOUT_ID = ("json_commands",)
_EXPECTED = {
    "success": "COMMAND must exit with 0 and print the answer.",
    "failure": "COMMAND must exit with a code other than 0.",
    "either": "COMMAND may succeed with the right answer, or fail.",
}


class ConformRule(Struct, frozen=True, forbid_unknown_fields=True):
    """One thing that every orchestrator must do: the sentence, why, and what breaks otherwise."""

    id: str
    sentence: str
    why: str
    severity: Severity


class Source(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a misbehaviour was observed: the engine, its release (or releases), and its report or recording."""

    engine: str
    release: str
    see: str


class Scenario(Struct, frozen=True, forbid_unknown_fields=True):
    """A conversation with an engine, and what an orchestrator must make of it.

    id, sentence, why: Its name, what happens, and why it matters.
    rule: The rule that its result tests.
    expect: Whether COMMAND must succeed (exit with 0 and print the answer), must fail, or may do either.
    unless_fails: The rule that COMMAND breaks if it must fail and exits with 0. Empty: `rule`.
    observed: The real releases that did this. None: every engine does it, or it is the caller's doing.
    needs: What the engine needs: one record per line (`lines`), records of the agent's messages (`messages`), a report
        of each retry (`retries`), a prompt on standard input (`stdin`); or the driver: a
        reply (`second_turn`), or two (`third_turn`).
    prompt, reply: What the user says; `{name}` is replaced by the name of the conversation.
    workspace: The name of the directory that COMMAND gets.
    conversations: How many run at once, in one home; in one directory, unless they would affect each other there.
    turns: How many turns the conversation has.
    deadline: Seconds that COMMAND gets for a turn.
    grace: Seconds that COMMAND gets in addition to the deadlines of its turns.
    cancel_after: After how many seconds of the last turn the user cancels it; 0: never.
    plays: What the engine does.
    """

    id: str
    sentence: str
    why: str
    rule: str
    expect: Expected
    unless_fails: str = ""
    observed: tuple[Source, ...] = ()
    needs: tuple[Need, ...] = ()
    prompt: str = PROMPT
    reply: str = "red ({name})"
    workspace: str = "workspace"
    conversations: int = 1
    turns: int = 2
    deadline: float = 60.0
    grace: float = GRACE
    cancel_after: float = 0.0
    plays: tuple[Play, ...] = ()

    @property
    def seconds(self) -> float:
        """How long it must take, at least: its delays, and the deadlines that its hangs use up."""
        return sum(play.delay + play.pause + (self.deadline if play.hang else 0) for play in self.plays)


@cache
def rules() -> dict[str, ConformRule]:
    """Return every rule by its id, in the order of reports."""
    return {rule.id: rule for rule in convert(_rows("rules"), tuple[ConformRule, ...])}


@cache
def scenarios() -> dict[str, Scenario]:
    """Return every scenario by its id, in the order in which they run."""
    return {one.id: one for one in convert(_rows("scenarios"), tuple[Scenario, ...], strict=False)}


def obstacle(scenario: Scenario, contract: EngineContract) -> str | None:
    """Return why an engine can't play a scenario in a call that runs one turn; None: it can."""
    if "lines" in scenario.needs and contract.streams.stdout.framing != "ndjson":
        return f"{contract.title} prints no sequence of records"
    if "messages" in scenario.needs and not prints_messages(contract):
        return f"{contract.title} prints one text per turn"
    if "retries" in scenario.needs and not simulation(contract).retrying:
        return f"{contract.title} does not report retries"
    if "stdin" in scenario.needs and not any(channel.via == "stdin" for channel in contract.launch.prompt):
        return f"{contract.title} takes no prompt on standard input"
    if any(play.late_text for play in scenario.plays):
        return f"{contract.title} sends no text after the end of a turn"
    return None


def needs_records(scenario: Scenario) -> bool:
    """Return whether what the engine does is only in its records; a failure is, if it exits with 0."""
    failures = any(play.backend and play.exit_code == 0 for play in scenario.plays)
    return failures or any(changed(play).keys() & _IN_RECORDS for play in scenario.plays)


def for_driver(scenario: Scenario, turns: int) -> Scenario | None:
    """Return a scenario for a driver of so many turns, whose only turn then misbehaves; None: it needs more."""
    if turns < MOST_TURNS and "third_turn" in scenario.needs:
        return None
    if turns > 1:
        return scenario
    if "second_turn" in scenario.needs:
        return None
    return replace(scenario, turns=1, plays=tuple(replace(play, turn=play.turn and 1) for play in scenario.plays))


def in_process(scenario: Scenario, transport: str) -> bool:
    """Return whether a process for several turns can play a scenario, and a client of its protocol can notice it."""
    return not any(
        changed(play).keys() & _TURN_ONLY
        or play.session_id in _PLACES
        or (transport in _WITHOUT_ID and (play.session_id or play.session == "fresh"))
        or (transport not in _TWO_QUEUES and play.late_text)
        for play in scenario.plays
    )


def needs_own_directories(contract: EngineContract) -> bool:
    """Return whether conversations of an engine affect each other in one directory, so that each needs its own.

    To lose one of two messages that go to one session at once is something else.
    """
    return any(one.clause == "session.at-once" and one.symptom != "message-lost" for one in contract.deviations)


def _rows(name: str) -> object:
    file = _FOLDER / f"{name}.yaml"
    return load.parse(file.read_text("utf-8"), file.name, ours=True).data[name]


def listed() -> str:
    """Return every rule and every scenario, a line each."""
    width = max(map(len, (*rules(), *scenarios())))
    rows = ["Rules", *(f"  {rule.id:<{width}}  {rule.sentence}" for rule in rules().values()), "", "Scenarios"]
    return "\n".join([*rows, *(f"  {one.id:<{width}}  {one.sentence}" for one in scenarios().values())]) + "\n"


def shown(chosen: Iterable[Scenario]) -> str:
    """Return what happens in each scenario (none: all), why it matters, and what the orchestrator must do."""
    return "\n".join("\n".join(_paragraph(one)) + "\n" for one in tuple(chosen) or scenarios().values())


def _paragraph(scenario: Scenario) -> Iterator[str]:
    broken = scenario.unless_fails or scenario.rule
    yield scenario.id
    yield f"  {scenario.sentence}"
    yield f"  why: {scenario.why}"
    yield f"  expected: {_EXPECTED[scenario.expect]} Otherwise it breaks {broken}."
    for rule in dict.fromkeys((broken, scenario.rule)):
        yield f"  {rule}: {rules()[rule].sentence}"
    yield f"  deadline: {scenario.deadline:g} s for each of {scenario.turns} turns"
    for play in scenario.plays:
        yield f"  the engine: {_played(play)}"
    if scenario.cancel_after:
        yield f"  the user: cancels the last turn after {scenario.cancel_after:g} s"
    for source in scenario.observed:
        yield f"  observed: {source.engine} {source.release} ({source.see})"


def _played(play: Play) -> str:
    settings = ((name, value) for name, value in changed(play).items() if name != "turn")
    reported = ", ".join(name if value is True else f"{name}={value}" for name, value in settings)
    return f"turn {play.turn}, in every attempt: {reported}" if play.turn else f"every turn: {reported}"
