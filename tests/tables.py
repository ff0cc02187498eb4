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
    Each row has a `tmp_path` of its own, and all share the other fixtures: what needs another one for each row stays
    parametrized, as property tests do.
    """
    keys = names.split(", ")
    rows_by_name = [dict(zip(keys, row if len(keys) > 1 else (row,), strict=True)) for row in rows]
    assert rows_by_name, "a table without rows tests nothing"

    def decorate(check: Check) -> Check:
        body, others = getattr(check, "table", (check, [({}, {})]))
        table = [
            ({key: shown(value) for key, value in row.items()} | label, row | values)
            for row in rows_by_name
            for label, values in others
        ]

        @wraps(body)
        def walk(*, subtests: pytest.Subtests, **fixtures: Any) -> None:
            for number, (label, values) in enumerate(table):
                own = dict(fixtures)
                if "tmp_path" in fixtures:
                    own["tmp_path"] = fixtures["tmp_path"] / str(number)
                    own["tmp_path"].mkdir()
                with subtests.test(**label):
                    body(**own, **values)

        walk.table = body, table  # type: ignore[attr-defined]
        wanted = [one for key, one in inspect.signature(body).parameters.items() if key not in table[0][0]]
        wanted.append(inspect.Parameter("subtests", inspect.Parameter.KEYWORD_ONLY))
        walk.__signature__ = inspect.Signature(wanted)  # type: ignore[attr-defined]
        return walk

    return decorate
