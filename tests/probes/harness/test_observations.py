"""The observations of a probe."""

import pytest

from tests.probes import turns as t
from turngate.contract.clauses import Reason
from turngate_probes.harness.interrupt import Obstacle
from turngate_probes.harness.observations import CaseEnd, NotObservedError, Observations, ServerCall, unknown_requests

FIRST = t.turn("main/first")
PAGE = t.page("static/version", "codex-cli 0.169.0")
CALL = ServerCall("loop/create", "POST", "/v1/runs", 409, {}, {"state": "queued", "code": "BUSY", "detail": "no slot"})


def test_what_was_seen_is_found_by_its_name() -> None:
    """Turns, command outputs and calls are found by case and step."""
    observed = Observations(t.CODEX)
    for item in (FIRST, PAGE, CALL):
        observed.saw(item)
    assert (observed.turn("main/first"), observed.page("static/version"), observed.call("loop/create")) == (
        FIRST,
        PAGE,
        CALL,
    )
    assert (FIRST.case, FIRST.step) == ("main", "first")


@pytest.mark.parametrize(
    "end, absent, obstacle",
    [
        (CaseEnd("main", Obstacle("it hung", by_engine=True)), None, Obstacle("it hung", by_engine=True)),
        (CaseEnd("main"), None, Obstacle("its case completed", by_engine=True)),
        (None, Obstacle("no executable", Reason.NO_EXECUTABLE), Obstacle("no executable", Reason.NO_EXECUTABLE)),
        (None, None, Obstacle("it did not run")),
    ],
)
def test_what_was_not_seen_has_its_reason(end: CaseEnd | None, absent: Obstacle | None, obstacle: Obstacle) -> None:
    """A missing observation reports why its case was stopped or not run."""
    observed = Observations(t.CODEX, absent=absent)
    if end:
        observed.ended(end)
    with pytest.raises(NotObservedError, match=f"main/first was not observed.*{obstacle.text}") as unseen:
        observed.turn("main/first")
    assert (unseen.value.obstacle.reason, unseen.value.obstacle.by_engine) == (obstacle.reason, obstacle.by_engine)


def test_the_ends_of_cases_add_up() -> None:
    """Hosts and unknown requests of all cases are collected."""
    observed = Observations(t.CODEX)
    observed.ended(CaseEnd("main", hosts=frozenset({"a.test"})))
    observed.ended(CaseEnd("auto", unknown=frozenset({"GET /x"})))
    assert (observed.hosts, observed.unknown, observed.finished) == ({"a.test"}, {"GET /x"}, {"main", "auto"})


def test_a_turn_carries_the_turns_before_it() -> None:
    """A turn carries earlier ones if one request holds all their nonces; without recorded requests this is unknown."""
    again = t.resumed("main/again", "main/first")
    assert again.carries(FIRST)
    assert not again.carries(FIRST, t.turn("main/third"))
    with pytest.raises(NotObservedError, match="has no requests"):
        t.turn("main/first", requests=None).sent()


def test_a_call_says_what_was_answered() -> None:
    """A call is described by its status, code and detail; a response that is no object counts as empty."""
    assert (CALL.summary(), CALL.state) == ("POST /v1/runs: 409: BUSY: no slot", "queued")
    assert ServerCall("loop/x", "GET", "/", 200, None, "text").document == {}


def test_unknown_requests_are_named_by_method_and_path() -> None:
    """Only requests with an unknown protocol are listed.

    Tunnels to this machine, reads of the root and those that find out which local server answers are left out.
    """
    known, strange = t.exchange("n"), t.exchange("n", protocol=None, method="GET", path="/x")
    tunnel = t.exchange("n", protocol=None, method="CONNECT")
    root = t.exchange("n", protocol=None, method="GET", path="/")
    kind = t.exchange("n", protocol=None, method="GET", path="/api/tags")
    assert unknown_requests([known, strange, tunnel, root, kind]) == {"GET /x"}
