"""The check of failing model backends, on hand-made turns."""

import pytest

from tests.probes import turns as t
from turngate.model import Ended
from turngate_probes.harness.observations import NotObservedError, Turn

TOLD = tuple(
    t.turn(f"backend-{kind}/first", t.printed(text=None, failure=f"it was {kind}"), exit_code=1)
    for kind in ("401", "500", "away", "cut")
)


def with_(*turns: Turn) -> tuple[Turn, ...]:
    """Return the four failing turns, with some of them replaced."""
    named = {turn.name: turn for turn in turns}
    return tuple(named.get(turn.name, turn) for turn in TOLD)


def test_failures_that_are_told_pass() -> None:
    """Four failures that are reported in time pass, and the detail says how each ended."""
    finding = t.check("backend.failure-told", *TOLD)
    assert finding.ok
    assert finding.detail.startswith("401: exit code 1: it was 401; 500: ")
    assert len(finding.evidence) == len(TOLD)


@pytest.mark.parametrize(
    "turn, symptoms",
    [
        (t.turn("backend-cut/first"), ("success-cut",)),
        (t.turn("backend-401/first", t.printed(text="It failed.")), ("success-401",)),
        (t.turn("backend-401/first", t.printed(text=None, failure="no key")), ("exit-0-401",)),
        (t.hung("backend-away/first"), ("hang-away",)),
        (t.turn("backend-500/first", exit_code=1), ()),
        (t.turn("backend-500/first", ended=Ended.LINGERED), ("success-500",)),
        (t.turn("backend-500/first", t.printed(text=None, failure="down"), ended=Ended.LINGERED), ()),
    ],
    ids=["answered", "answered in words", "told with exit code 0", "hung", "bad exit", "lingering", "told, lingering"],
)
def test_a_failure_that_is_not_told_has_a_symptom(turn: Turn, symptoms: tuple[str, ...]) -> None:
    """A success, an error with exit code 0 and a hang are symptoms of that backend; a bad exit code alone passes.

    A process that lingered has no exit code of its own, so only its events can tell.
    """
    finding = t.check("backend.failure-told", *with_(turn))
    assert (finding.ok, finding.symptoms) == (not symptoms, symptoms)


def test_every_symptom_is_told() -> None:
    """Each failing backend adds its own symptom, and the detail begins with those that have one."""
    finding = t.check("backend.failure-told", *with_(t.hung("backend-500/first"), t.turn("backend-cut/first")))
    assert finding.symptoms == ("hang-500", "success-cut")
    assert [part.partition(":")[0] for part in finding.detail.split("; ")] == ["500", "cut", "401", "away"]


def test_a_backend_that_was_not_seen_leaves_the_clause_open() -> None:
    """The clause is not run unless all four backend failures were observed."""
    with pytest.raises(NotObservedError, match="backend-cut/first was not observed"):
        t.check("backend.failure-told", *TOLD[:3])
    with pytest.raises(NotObservedError, match="backend-401/first was not observed"):
        t.check("backend.failure-told", t.turn("main/first"))


def test_recordings_are_judged_by_what_there_is() -> None:
    """For recordings, one recorded failure is enough."""
    recorded = t.turn("backend-away/first", t.printed(text=None, failure="away"), exit_code=1, requests=None)
    assert t.check("backend.failure-told", recorded).ok
