"""Dotted paths into records: the values at them, and why there is none."""

from collections.abc import Callable
from functools import cache
from typing import Any

from turngate.contract.values import Match

Record = dict[str, Any]
_KINDS = {list: "a list", dict: "an object", str: "text", bool: "a boolean", int: "a number", float: "a number"}


def value_at(record: Any, path: str) -> Any:
    """Follow a dotted path through nested objects and lists, as in `content.0.text`; None where a step is missing."""
    return getter(path)(record)


@cache
def getter(path: str) -> Callable[[Any], Any]:
    """Return the function that follows a dotted path, as `value_at` does, in a record."""
    steps = path.split(".")

    def get(record: Any) -> Any:
        for step in steps:
            record = record.get(step) if record.__class__ is dict else step_into(record, step)
        return record

    first, *more = steps
    if more[1:] or any(map(is_index, steps)):
        return get
    second = more[0] if more else ""

    # these run for most lines of long transcripts, whose objects nearly always have the keys
    def get_first(record: Any) -> Any:
        try:
            return record[first]
        except (KeyError, TypeError):
            return None

    def get_second(record: Any) -> Any:
        try:
            return record[first][second]
        except (KeyError, TypeError):
            return None

    return get_second if more else get_first


def both(one: str, other: str, call: Callable[[Any, Any], None]) -> Callable[[Record, int], None]:
    """Return an observer of records that calls a function with the values at two paths."""
    get_one, get_other = getter(one), getter(other)
    (shared, _, key), (before, _, other_key) = one.rpartition("."), other.rpartition(".")

    def observe(record: Record, _index: int) -> None:
        call(get_one(record), get_other(record))

    def observe_inner(record: Record, _index: int) -> None:
        try:
            inner = record[shared]
            value, other_value = inner[key], inner[other_key]
        except (KeyError, TypeError):
            value, other_value = get_one(record), get_other(record)
        call(value, other_value)

    return observe_inner if shared == before and shared and "." not in shared else observe


def step_into(value: Any, step: str) -> Any:
    """Return the value under a key of an object, or at an index of a list: 0 is the first, -1 the last; else None."""
    if isinstance(value, dict):
        return value.get(step)
    if isinstance(value, list) and is_index(step) and -len(value) <= int(step) < len(value):
        return value[int(step)]
    return None


def is_index(step: str) -> bool:
    """Whether a step of a path is an index of a list; negative ones count from its end."""
    return step.removeprefix("-").isdecimal()


def matches(record: Record, match: Match | None) -> bool:
    """Return whether the record has every value that `match` asks for (None matches every record)."""
    return match is None or all(value_at(record, path) == value for path, value in match.items())


def unmatched(path: str, records: int, where: str = "", *, obstacle: str, text: bool = False) -> str:
    """Say that a path matched nothing, or no text, in so many records, and what is there instead."""
    if records == 1:
        said = f"`{path}` matched {'no text in' if text else 'nothing in'} the only record{where}"
    else:
        said = f"`{path}` matched {'no text in' if text else 'none of'} {records} records{where}"
    return said + (f"; {obstacle}" if obstacle else "")


def obstacle_at(record: Record, path: str) -> tuple[int, str]:
    """Return how many steps of a path lead to something, and what keeps it from a text; empty: it has no first step."""
    said: list[str] = []
    value: object = record
    taken: list[str] = []
    for step in path.split("."):
        inner = step_into(value, step)
        if isinstance(value, list):
            said.append(f"`{'.'.join(taken)}` is a list")
        if inner is None:
            said += _missing(value, step, taken)
            break
        value = inner
        taken.append(step)
    else:
        said.append(f"`{path}` is {_KINDS.get(type(value), 'null')}")
    return len(taken), ", and ".join(said)


def _missing(value: object, step: str, taken: list[str]) -> list[str]:
    at = ".".join(taken)
    if isinstance(value, dict):
        if step in value:
            return [f"`{'.'.join([*taken, step])}` is null"]
        return [f"`{at}` has no `{step}`"] if at else []
    if isinstance(value, list):
        return [f"it has no item {step}" if is_index(step) else f"`{step}` isn't an index such as `{at}.0`"]
    return [f"`{at}` is {_KINDS.get(type(value), 'null')}"]
