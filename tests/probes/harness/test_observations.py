"""What a probe saw."""

import pytest

from tests.probes import turns as t
from turngate.contract.clauses import Reason
from turngate_probes.harness.interrupt import Obstacle
from turngate_probes.harness.observations import Call, CaseEnd, NotSeenError, Observations, unknown_requests

FIRST = t.turn("main/first")
PAGE = t.page("static/version", "codex-cli 0.169.0")
CALL = Call("loop/create", "POST", "/v1/runs", 409, {}, {"state": "queued", "code": "BUSY", "detail": "no slot"})


def test_what_was_seen_is_found_by_its_name() -> None:
    """Turns, pages and calls have names of a case and a step."""
    seen = Observations(t.CODEX)
    for item in (FIRST, PAGE, CALL):
        seen.saw(item)
    assert (seen.turn("main/first"), seen.page("static/version"), seen.call("loop/create")) == (FIRST, PAGE, CALL)
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
    """A case that ended lacks only what the engine did not do; else what stopped it is the reason."""
    seen = Observations(t.CODEX, absent=absent)
    if end:
        seen.ended(end)
    with pytest.raises(NotSeenError, match=f"main/first was not observed.*{obstacle.text}") as unseen:
        seen.turn("main/first")
    assert (unseen.value.obstacle.reason, unseen.value.obstacle.by_engine) == (obstacle.reason, obstacle.by_engine)


def test_the_ends_of_cases_add_up() -> None:
    """Hosts and unknown requests of all cases are kept."""
    seen = Observations(t.CODEX)
    seen.ended(CaseEnd("main", hosts=frozenset({"a.test"})))
    seen.ended(CaseEnd("auto", unknown=frozenset({"GET /x"})))
    assert (seen.hosts, seen.unknown, seen.finished) == ({"a.test"}, {"GET /x"}, {"main", "auto"})


def test_a_turn_carries_the_turns_before_it() -> None:
    """One request must hold its own nonce and theirs; a turn that nobody watched can't tell."""
    again = t.resumed("main/again", "main/first")
    assert again.carries(FIRST)
    assert not again.carries(FIRST, t.turn("main/third"))
    with pytest.raises(NotSeenError, match="has no requests"):
        t.turn("main/first", requests=None).sent()


def test_a_call_says_what_was_answered() -> None:
    """Status, code and detail of a problem; an answer that is no object is an empty document."""
    assert (CALL.said(), CALL.state) == ("POST /v1/runs: 409: BUSY: no slot", "queued")
    assert Call("loop/x", "GET", "/", 200, None, "text").document == {}


def test_unknown_requests_are_named_by_method_and_path() -> None:
    """Known protocols and tunnels to this machine are left out."""
    known, strange = t.exchange("n"), t.exchange("n", protocol=None, method="GET", path="/x")
    tunnel = t.exchange("n", protocol=None, method="CONNECT")
    assert unknown_requests([known, strange, tunnel]) == {"GET /x"}
