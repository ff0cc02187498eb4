"""Tests that slow facts are found out once, however many callers ask."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from turngate_reference.server.orchestrator.profiles import Cache


def test_all_who_ask_at_once_wait_for_the_first() -> None:
    """The first caller computes the value while the others wait; all get the same one."""
    once: Cache[object] = Cache()
    values: list[object] = []
    go, asking = threading.Event(), threading.Barrier(8)

    def find() -> tuple[object, float]:
        go.wait(30)
        values.append(object())
        return values[-1], float("inf")

    def ask() -> object:
        asking.wait(30)
        return once.get("key", find)

    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(ask) for _ in range(8)]
        assert once.peek("key") is None
        go.set()
        assert {answer.result() for answer in asked} == {values[0]}
    assert len(values) == 1


def test_a_value_is_kept_for_its_time() -> None:
    """A value is kept only for its lifetime and its key; an expired one can still be read without waiting."""
    now = [0.0]
    once: Cache[int] = Cache(lambda: now[0])
    values = iter(range(10))

    def find() -> tuple[int, float]:
        return next(values), 60.0

    assert once.get("a", find) == once.get("a", find) == 0
    assert once.get("b", find) == 1
    now[0] = 59.9
    assert once.get("a", find) == 0
    now[0] = 60.0
    assert once.peek("a") == 0
    assert once.get("a", find) == 2


def test_an_error_is_not_kept() -> None:
    """After an error, the next caller computes the value again."""
    once: Cache[int] = Cache()

    def fail() -> tuple[int, float]:
        raise OSError

    with pytest.raises(OSError):  # noqa: PT011 - made here
        once.get("a", fail)
    assert once.peek("a") is None
    assert once.get("a", lambda: (1, 1.0)) == 1
