"""Each drift of the corpus is caught by the clause that it names."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.drift.drifts import Drift, corpus
from tests.drift.judging import Judged, failures, judge_drift
from tests.drift.staged import PLAYED_AT_ONCE, without_waiting

CORPUS = corpus()
ALONE = (
    "after-its-turn",
    "after-the-last-event",
    "crlf",
    "events-twice-codex",
    "numbered-in-each-home",
    "from-a-cache",
)
Judging = dict[str, Future[Judged]]


@pytest.fixture(scope="module", name="judging")
def _judging(request: pytest.FixtureRequest) -> Iterator[Judging]:
    """Judge the selected drifts, a few at once."""
    asked = {drift.name for drift in map(_drift_of, request.session.items) if drift}
    with without_waiting(), ThreadPoolExecutor(PLAYED_AT_ONCE) as pool:
        yield {drift.name: pool.submit(judge_drift, drift) for drift in CORPUS if drift.name in asked}


def _drift_of(item: pytest.Item) -> Drift | None:
    if isinstance(item, pytest.Function) and item.originalname == test_drift_is_caught.__name__:
        return next(drift for drift in CORPUS if f"[{drift.name}]" in item.name)
    return None


@pytest.mark.long
@pytest.mark.parametrize("drift", CORPUS, ids=lambda drift: drift.name)
def test_drift_is_caught(drift: Drift, judging: Judging) -> None:
    """The clause that the drift names fails; for some drifts, no other clause fails."""
    judged = judging[drift.name].result()
    assert judged.caught, str(judged)
    if any(part in drift.name for part in ALONE):
        assert [failure.id for failure in failures(judged.results)] == [drift.caught_by], str(judged)
