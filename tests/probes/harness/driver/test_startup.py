"""The starts of a release's turns, on a clock that the test sets."""

from types import SimpleNamespace

import pytest

from turngate_probes.harness import driver
from turngate_probes.harness.driver import FACTOR, Startups

MOST = 60.0


@pytest.fixture(name="clock", autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that stands still until the test moves `now`."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(driver, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def test_without_a_request_the_most_is_allowed(clock: SimpleNamespace) -> None:
    """Nothing is known until a turn has made a request, also if another one is starting or is over."""
    starts = Startups()
    assert (starts.slowest(), starts.allowance(MOST)) == (0, MOST)
    with starts.observing("first"):
        starts.begin("first")
        clock.now += 1
        assert starts.allowance(MOST) == MOST
    assert starts.allowance(MOST) == MOST


def test_the_slowest_start_counts(clock: SimpleNamespace) -> None:
    """The slowest of all starts counts, up to the first request of each turn."""
    starts = Startups()
    for turn, seconds in (("first", 2), ("second", 5), ("third", 1)):
        with starts.observing(turn):
            starts.begin(turn)
            clock.now += seconds
            starts.called(turn)
            clock.now += 50
            starts.called(turn)
    assert (starts.slowest(), starts.allowance(MOST)) == (5, FACTOR * 5)


def test_a_turn_that_is_still_starting_counts_until_it_is_over(clock: SimpleNamespace) -> None:
    """The allowance grows with a turn that is starting, to the most; one that ends without a request doesn't count."""
    starts = Startups()
    starts.begin("first")
    clock.now += 2
    starts.called("first")
    with starts.observing("slow"):
        starts.begin("slow")
        clock.now += 7
        assert starts.allowance(MOST) == FACTOR * 7
        clock.now += MOST
        assert starts.allowance(MOST) == MOST
    assert starts.allowance(MOST) == FACTOR * 2


def test_other_requests_are_ignored() -> None:
    """A request of a turn whose start isn't known changes nothing."""
    starts = Startups()
    starts.called("unknown")
    assert starts.allowance(MOST) == MOST
