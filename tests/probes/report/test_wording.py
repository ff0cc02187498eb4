import pytest

from tests.probes.report import journals as j
from tests.probes.report import samples
from turngate_probes.report.wording import counted, duration, known, profile_of, verdict_of


@pytest.mark.parametrize("seconds, text", [
    (0.44, "0.4 s"), (9.96, "10 s"), (12.2, "12 s"), (59.7, "1 min 0 s"), (183, "3 min 3 s"), (7500, "2 h 5 min"),
])  # fmt: skip
def test_a_time_is_written_as_people_say_it(seconds: float, text: str) -> None:
    """Seconds, minutes, then hours."""
    assert duration(seconds) == text


def test_the_number_of_caveats_stands_with_the_verdict() -> None:
    """A caveat is a clause whose result is `deviates`; all clauses are counted."""
    caveat = j.clause("stdin.open", "deviates", detail="it hangs")
    (none,), (one,) = (samples.of(samples.whole(*changed)).releases for changed in ((), (caveat,)))
    assert (verdict_of(none), verdict_of(one)) == ("compatible", "compatible, 1 known caveat")
    assert counted(one) == "27 clauses: 26 passed, 1 known caveat, 0 failed, 0 not run"


def test_what_was_not_tested_is_called_so() -> None:
    """A release that could not be asked has no profile."""
    assert profile_of(samples.of([j.planned(), j.failed()]).releases[0]) == "not tested"


def test_a_clause_of_another_turngate_is_not_known() -> None:
    """Reports are read from files too."""
    entry = known("resume.accepted")
    assert entry is not None
    assert entry.sentence
    assert known("resume.unheard-of") is None
