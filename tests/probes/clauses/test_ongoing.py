"""Checks of what an engine does after its question, on hand-made turns."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.probes import turns as t
from tests.tables import each
from turngate.contract.engine_contract import Deviation
from turngate.contract.home_and_workspace import OngoingCall
from turngate.model import Ended
from turngate_probes.clauses.checks import SkippedError
from turngate_probes.harness.observations import NotObservedError, Turn
from turngate_probes.stub_model import Exchange

CLAUSE = "turn.ends-once"
CALLS = (OngoingCall("schedule", "cron", {}), OngoingCall("agent", "agent", {}))
CONTRACT = replace(t.CODEX, ongoing_calls=CALLS, deviations=())


def requests(name: str, *after: Exchange, calls: int = 2) -> tuple[Exchange, ...]:
    """Return the requests of a turn: a title, the calls, the answer, and what comes after it."""
    nonce = t.nonce(name)
    made = [t.exchange(nonce, reply=f"tool_call {call.tool}") for call in CALLS[:calls]]
    return (t.exchange(nonce, tools=()), *made, t.exchange(nonce), *after)


def case(first: dict[str, Any] | None = None, again: dict[str, Any] | None = None) -> list[Turn]:
    """Return the turns of the case, with changes."""
    names = ("ends-once/first", "ends-once/again")
    usual = [{"requests": requests(name), "changed": ()} for name in names]
    return [
        t.turn(name, **(known | (more or {}))) for name, known, more in zip(names, usual, (first, again), strict=True)
    ]


def test_a_question_that_ends_its_turn_passes() -> None:
    """The calls were made, and nothing came of them; a request without tools is for a title."""
    title = t.exchange(t.nonce("ends-once/first"), tools=())
    finding = t.check(CLAUSE, *case({"requests": requests("ends-once/first", title)}), contract=CONTRACT)
    assert (finding.ok, finding.evidence) == (True, ("ends-once/first", "ends-once/again"))
    assert "cron, agent" in finding.detail


@each("step", ["first", "again"])
@each(
    "shown, symptoms, detail",
    [
        ({"goes-on": True}, ("goes-on",), "it sent the model 1 more request after its question"),
        ({"ended": Ended.LINGERED, "exit_code": -15}, ("stays",), "it stayed after its question"),
        ({"ended": Ended.TIMEOUT, "exit_code": None}, ("stays",), "it stayed after its question"),
        ({"changed": (".git/refs/heads/x",)}, ("changes-files",), "it wrote .git/refs/heads/x"),
        (
            {"goes-on": True, "changed": ("x",)},
            ("goes-on", "changes-files"),
            "more request after its question; it wrote x",
        ),
    ],
)
def test_what_comes_after_the_question_fails(
    step: str, shown: dict[str, Any], symptoms: tuple[str, ...], detail: str
) -> None:
    """Each effect has its symptom, so that a deviation that declares one excuses no other."""
    changes = {key: value for key, value in shown.items() if key != "goes-on"}
    if "goes-on" in shown:
        changes["requests"] = requests(f"ends-once/{step}", t.exchange())
    finding = t.check(CLAUSE, *case(**{step: changes}), contract=CONTRACT)
    assert (finding.ok, finding.symptoms, finding.evidence) == (False, symptoms, (f"ends-once/{step}",))
    assert detail in finding.detail


def test_records_after_the_end_fail() -> None:
    """Another turn in the output counts, even if its requests are not seen."""
    finding = t.check(CLAUSE, *case({"stdout": t.printed() + t.printed(text="more")}), contract=CONTRACT)
    assert finding.symptoms == ("goes-on",)
    assert "item.completed" in finding.detail


def test_a_lost_question_fails() -> None:
    """The answer of another turn is no question."""
    finding = t.check(CLAUSE, *case({"stdout": t.printed(text="The task has finished.")}), contract=CONTRACT)
    assert (finding.ok, finding.symptoms) == (False, ())
    assert "the question got lost" in finding.detail


def test_a_turn_without_session_id_shows_nothing() -> None:
    """Other clauses report a missing session id, and without one no question can be read."""
    with pytest.raises(NotObservedError, match="ends-once/first reported no session id"):
        t.check(CLAUSE, *case({"stdout": t.printed(session=None)}), contract=CONTRACT)


def test_an_engine_that_always_lingers_is_excused() -> None:
    """A process that never exits by itself says nothing about what it waits for."""
    lingers = replace(CONTRACT, deviations=(Deviation("process.clean-exit", "lingers", "end it"),))
    assert t.check(CLAUSE, *case({"ended": Ended.LINGERED, "exit_code": -15}), contract=lingers).ok


def test_calls_that_were_not_made_show_nothing() -> None:
    """A model that was not asked often enough could not call every tool."""
    with pytest.raises(NotObservedError, match="only 1 of 2 calls"):
        t.check(CLAUSE, *case({"requests": requests("ends-once/first", calls=1)}), contract=CONTRACT)


def test_a_release_without_such_tools_is_not_tested() -> None:
    """A contract that names none makes no promise."""
    with pytest.raises(SkippedError):
        t.check(CLAUSE, contract=replace(CONTRACT, ongoing_calls=()))
