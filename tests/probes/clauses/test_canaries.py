"""Checks of the programs that an engine starts, on hand-made turns."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.probes import turns as t
from turngate.contract.clauses import Reason
from turngate.contract.home_and_workspace import Canary
from turngate.model import Mode
from turngate_probes.clauses.checks import SkippedError
from turngate_probes.harness.observations import NotObservedError, Turn

CLAUSE = "interactive.nothing-started"
CONTRACT = replace(t.CODEX, canaries=(Canary("a", "mcp", ("-a",)), Canary("b", "hook", ("-b",))))


def turns(*, first: tuple[str, ...] = (), again: tuple[str, ...] = (), control: tuple[str, ...] = ()) -> list[Turn]:
    """Return the turns of the case, each with the canaries that it started."""
    return [
        t.turn("canaries/first", started=first),
        t.resumed("canaries/again", started=again),
        t.turn("canaries/control", started=control, mode=Mode.AUTO),
    ]


def test_silence_counts_where_the_control_run_starts_something() -> None:
    """Canaries that the control run doesn't start either are named as unproven."""
    finding = t.check(CLAUSE, *turns(control=("a", "b")), contract=CONTRACT)
    assert (finding.ok, finding.evidence) == (True, ("canaries/first", "canaries/again", "canaries/control"))
    assert "unproven" not in finding.detail
    assert t.check(CLAUSE, *turns(control=("a",)), contract=CONTRACT).detail.endswith("; unproven: b")


@pytest.mark.parametrize("changes", [{"first": ("b",)}, {"again": ("b",)}])
def test_a_canary_that_is_started_fails(changes: dict[str, Any]) -> None:
    """A canary started in a first or a resumed turn fails, and its kind is named."""
    finding = t.check(CLAUSE, *turns(**changes), contract=CONTRACT)
    assert (finding.ok, finding.detail) == (False, "an interactive turn started b (hook)")
    assert finding.evidence == (f"canaries/{next(iter(changes))}",)


def test_a_canary_counts_although_no_session_can_be_resumed() -> None:
    """A canary that the first turn started fails, even if no other followed, for lack of a session id."""
    finding = t.check(CLAUSE, t.turn("canaries/first", t.printed(None), started=("a",)), contract=CONTRACT)
    assert (finding.ok, finding.detail) == (False, "an interactive turn started a (mcp)")


def test_a_turn_that_fails_shows_nothing_by_its_silence() -> None:
    """A failed turn fails the clause, even if it started no canary."""
    failed = [t.refused("canaries/first", started=()), *turns(control=("a", "b"))[1:]]
    assert not t.check(CLAUSE, *failed, contract=CONTRACT).ok


def test_silence_of_the_control_run_answers_nothing() -> None:
    """If the control run starts no canary, the clause is not run, and the canaries are named."""
    with pytest.raises(NotObservedError, match="started none of a, b") as raised:
        t.check(CLAUSE, *turns(), contract=CONTRACT)
    assert raised.value.obstacle.reason is Reason.CONTRACT


def test_a_contract_that_names_no_way_asks_nothing() -> None:
    """A contract without canaries skips the clause."""
    with pytest.raises(SkippedError, match="names no way"):
        t.check(CLAUSE, contract=replace(t.CODEX, canaries=()))
