"""One test for a whole table: it costs what one test costs, and names every row that fails."""

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest

Check = Callable[..., None]


def each(
    names: str, rows: Iterable[Any], *, shown: Callable[[Any], object] = lambda value: value
) -> Callable[[Check], Check]:
    """Call the test with each row of values for `names`, as `pytest.mark.parametrize` does, but within one test.

    Decorated twice, it is called with every combination. A failure names its row by the values, as `shown` writes them.
    All rows share the fixtures of one test. What needs its own for each row stays parametrized, as property tests do.
    """
    keys = names.split(", ")
    own = [dict(zip(keys, row if len(keys) > 1 else (row,), strict=True)) for row in rows]
    assert own, "a table without rows tests nothing"

    def decorate(check: Check) -> Check:
        body, others = getattr(check, "table", (check, [({}, {})]))
        table = [
            ({key: shown(value) for key, value in row.items()} | label, row | values)
            for row in own
            for label, values in others
        ]

        @wraps(body)
        def walk(*, subtests: pytest.Subtests, **fixtures: Any) -> None:
            for label, values in table:
                with subtests.test(**label):
                    body(**fixtures, **values)

        walk.table = body, table  # type: ignore[attr-defined]
        wanted = [one for key, one in inspect.signature(body).parameters.items() if key not in table[0][0]]
        wanted.append(inspect.Parameter("subtests", inspect.Parameter.KEYWORD_ONLY))
        walk.__signature__ = inspect.Signature(wanted)  # type: ignore[attr-defined]
        return walk

    return decorate
