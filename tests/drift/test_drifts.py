"""Each drift of the corpus is caught by the clause that it names."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from tests.drift.drifts import Drift, corpus
from tests.drift.judging import base, failures, judge_drift
from tests.drift.staged import without_waiting
from tests.drift.transform import drifted
from turngate.contract.verdict import Verdict, exit_code, verdict
from turngate_probes.clauses import CHECKS
from turngate_probes.harness.interrupt import Obstacle
from turngate_probes.harness.observations import Observations

CORPUS = corpus()
# the turns of a case that come one after the other
ORDER = {
    "main": ("first", "again", "third", "same", "same-again", "elsewhere"),
    "later-minute": ("a-first", "a-again", "b-first", "a-third", "b-again"),
    "bad-handles": ("first", "dead", "malformed"),
    "auto": ("first", "again"),
    "flag-prompts": ("first", "again"),
    "tool-call": ("first", "again", "auto"),
}
# what happens to a reader: the answer is there twice, or has a character too many
MISREAD = [drift for drift in CORPUS if drift.name.startswith(("events-twice", "framing-crlf"))]


@pytest.mark.long
@pytest.mark.nightly
@pytest.mark.parametrize("drift", CORPUS, ids=lambda drift: drift.name)
def test_drift_is_caught(drift: Drift) -> None:
    """The clause that the drift names fails; where the drift says so, no other clause fails."""
    with without_waiting(drift):
        judged = judge_drift(drift)
    assert judged.caught, str(judged)
    if drift.alone:
        assert [failure.id for failure in failures(judged.results)] == [drift.caught_by], str(judged)


@pytest.mark.parametrize("drift", MISREAD, ids=lambda drift: drift.name)
def test_a_release_whose_output_is_misread_is_broken(drift: Drift) -> None:
    """A wrapper that prints each record twice, or CRLF, ends a probe with exit code 1."""
    results = judge_drift(drift).results.values()
    found = verdict(results, recordings_only=True)
    assert (found, exit_code([found])) == (Verdict.BROKEN, 1)


@pytest.mark.long
@pytest.mark.nightly
@pytest.mark.parametrize("drift", [drift for drift in CORPUS if drift.recordings], ids=lambda drift: drift.name)
def test_what_was_seen_counts_without_later_turns(drift: Drift) -> None:
    """The clause also fails if its cases stopped after the last turns that show the failure."""
    observed = drifted(base(str(drift.recordings)), drift.changes)
    finding = CHECKS[drift.caught_by].run(observed)
    assert not finding.ok
    assert not CHECKS[drift.caught_by].run(_stopped_after(finding.evidence, observed)).ok


def _stopped_after(names: Sequence[str], observed: Observations) -> Observations:
    """Return what was observed until the last of these turns in each case."""
    turns, stopped = dict(observed.turns), dict(observed.stopped)
    for case in {observed.turns[name].case for name in names} & ORDER.keys():
        last = max(ORDER[case].index(observed.turns[name].step) for name in names if observed.turns[name].case == case)
        for step in ORDER[case][last + 1 :]:
            turns.pop(f"{case}/{step}", None)
        stopped[case] = Obstacle("it stopped", by_engine=True)
    return replace(observed, turns=turns, stopped=stopped)
